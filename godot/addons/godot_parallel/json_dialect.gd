extends RefCounted
## Requests and answers as JSON, as the Python side of Godot RL Agents 0.8 speaks it.
##
## That protocol has one "done" for both kinds of end, and no final observation.

const Codec := preload("codec.gd")
const Connection := preload("connection.gd")
const Snapshot := preload("snapshot.gd")

var actions: Array = []
var reset_request: Codec.ResetRequest  # stays null: that protocol's reset has no arguments
var call_request: Dictionary = {}

var _connection: Connection
var _codec: Codec
var _answer_type := "step"


func _init(connection: Connection, codec: Codec) -> void:
	_connection = connection
	_codec = codec


## Waits for the next request. ERROR: the trainer has gone, or broke the protocol.
func receive() -> Codec.Kind:
	var message := _connection.read_json()
	match message.get("type"):
		"action":
			return _receive_action(message)
		"reset":
			_answer_type = "reset"
			return Codec.Kind.RESET
		"call":
			call_request = {"op": "call", "name": message.get("method", "")}
			return Codec.Kind.CALL
		"close":
			return Codec.Kind.CLOSE
	return Codec.Kind.ERROR


func _receive_action(message: Dictionary) -> Codec.Kind:
	_answer_type = "step"
	actions = message.get("action", [])
	if actions.size() != _codec.agent_count:
		printerr("actions for %d agents, %d expected" % [actions.size(), _codec.agent_count])
		return Codec.Kind.ERROR
	for action: Dictionary in actions:
		for k: int in _codec.action_keys.size():
			if _codec.action_is_discrete[k]:
				action[_codec.action_keys[k]] = int(action[_codec.action_keys[k]])
	return Codec.Kind.STEP


## Sends a step's or reset's result. An error text if an observation can't be sent.
func answer(snapshot: Snapshot, _header: Codec.Header) -> String:
	var count := snapshot.obs.size()
	var infos: Array = []
	var done: Array = []
	for i: int in count:
		infos.append(snapshot.infos.get(str(i), {}))
		done.append(snapshot.terminated[i] + snapshot.truncated[i] > 0)
	var message := {"type": _answer_type, "obs": _as_json(snapshot.obs), "info": infos}
	if _answer_type == "step":
		message.reward = snapshot.reward
		message.done = done
	return "" if _connection.write_json(message) else "the trainer has gone"


func _as_json(observations: Array[Dictionary]) -> Array[Dictionary]:
	for k: int in _codec.obs_keys.size():
		if _codec.obs_is_bytes[k]:
			for obs: Dictionary in observations:
				if obs[_codec.obs_keys[k]] is PackedByteArray:
					obs[_codec.obs_keys[k]] = obs[_codec.obs_keys[k]].hex_encode()
	return observations


func send_returns(values: Array) -> void:
	_connection.write_json({"type": "call", "returns": values})


func send_error(message: String) -> void:
	printerr(message)

extends RefCounted
## The trainer at the other end of the socket: handshake, then one answer for each request.

const Codec := preload("codec.gd")
const Connection := preload("connection.gd")
const Snapshot := preload("snapshot.gd")
const BinaryDialect := preload("binary_dialect.gd")
const JsonDialect := preload("json_dialect.gd")
const MAJOR_VERSION := "0"
const ADDON_VERSION := "0.1.0"

var _sync: Node
var _connection: Connection
var _dialect: RefCounted  # BinaryDialect or JsonDialect
var _answer_due := false
var _acted_at := 0
var _first_tick := 0


## Looks for a trainer; null where a person shall play.
static func find(sync: Node) -> RefCounted:
	var connection := Connection.new(sync.options.spin_us)
	var is_headless := DisplayServer.get_name() == "headless"
	var patience: float = sync.options.connect_timeout if is_headless else 0.0
	if not connection.connect_within(sync.options.port, patience):
		_give_up(sync, is_headless)
		return null
	return load("res://addons/godot_parallel/trainer.gd").new(sync, connection)


static func _give_up(sync: Node, is_headless: bool) -> void:
	var message := "no trainer listens on port %d" % sync.options.port
	if is_headless:
		printerr("%s; gave up after %s s" % [message, sync.options.connect_timeout])
		sync.get_tree().quit(1)
	elif sync.ticks_total == 0:
		print(message + " yet: you play. Start `gdrl` to train.")


func _init(sync: Node, connection: Connection) -> void:
	_sync = sync
	_connection = connection


## Shakes hands; false if the two don't fit (the game then quits).
func greet() -> bool:
	var hello := _connection.read_json()
	var fault := _version_fault(hello)
	if not fault:
		fault = _sync.roster.fault()
	if _connection.read_json().get("type") != "env_info" and not fault:
		fault = "expected the message env_info after the handshake"
	if fault:
		return refuse(fault)
	var agents: Array[Node] = _sync.roster.agents
	var codec := Codec.new(agents.size(), agents[0].get_obs_space(), agents[0].get_action_space())
	_connection.write_json(_env_info(agents))
	if hello.has("godot_parallel"):
		_dialect = BinaryDialect.new(_connection, codec)
	else:
		_dialect = JsonDialect.new(_connection, codec)
	return true


static func _version_fault(hello: Dictionary) -> String:
	if hello.get("type") != "handshake":
		return "expected a handshake, found %s" % [hello]
	var ours: Variant = hello.get("godot_parallel")
	if ours is Dictionary and int(ours.get("protocol", 0)) != Codec.PROTOCOL:
		return (
			"protocol %s of the trainer does not fit protocol %d of the addon"
			% [ours.get("protocol"), Codec.PROTOCOL]
		)
	if str(hello.get("major_version")) != MAJOR_VERSION:
		return (
			"handshake version %s.%s of the trainer does not fit version %s of the addon"
			% [hello.get("major_version"), hello.get("minor_version"), MAJOR_VERSION]
		)
	return ""


func _env_info(agents: Array[Node]) -> Dictionary:
	var roster: RefCounted = _sync.roster
	var who: Array[Dictionary] = []
	for agent: Node in agents:
		var instance: int = roster.copies.find(agent.episode.copy)
		who.append({"instance": instance, "path": str(agent.get_path())})
	return {
		"type": "env_info",
		"observation_space": agents.map(func(a: Node) -> Variant: return a.get_obs_space()),
		"action_space": agents.map(func(a: Node) -> Variant: return a.get_action_space()),
		"n_agents": agents.size(),
		"agent_policy_names": agents.map(func(a: Node) -> Variant: return a.policy_name),
		"godot_parallel":
		{
			"protocol": Codec.PROTOCOL,
			"token": _sync.options.token,
			"addon": ADDON_VERSION,
			"engine": Engine.get_version_info().string,
			"ticks_per_second":
			ProjectSettings.get_setting("physics/common/physics_ticks_per_second", 60),
			"action_repeat": _sync.action_repeat,
			"instances": roster.copies.size(),
			"isolation": roster.isolation,
			"agents": who,
			"headless": DisplayServer.get_name() == "headless",
			"notes": roster.notes,
		},
	}


## Tells the trainer why the game can't go on, and quits.
func refuse(message: String) -> bool:
	printerr(message)
	if _dialect:
		_dialect.send_error(message)
	else:
		_connection.write_json({"type": "error", "message": message, "token": _sync.options.token})
	_sync.get_tree().quit(1)
	return false


## Answers the last request, if there is one, and takes the next. Returns its kind: STEP (actions
## are set), RESET (begin new episodes) or CLOSE (the game quits).
func exchange() -> Codec.Kind:
	if _answer_due and not _answer():
		return Codec.Kind.CLOSE
	while true:
		var kind: Codec.Kind = _dialect.receive()
		match kind:
			Codec.Kind.STEP:
				_act()
				return kind
			Codec.Kind.RESET:
				_answer_due = true
				_first_tick = _sync.ticks_total
				return kind
			Codec.Kind.CALL:
				_dialect.send_returns(_call(_dialect.call_request))
			_:
				_leave(kind)
				return Codec.Kind.CLOSE
	return Codec.Kind.CLOSE


func _answer() -> bool:
	var change: String = _sync.roster.change()
	if change:
		return refuse(change)
	var ticks: int = _sync.ticks_total - _first_tick
	var physics_us := Time.get_ticks_usec() - _acted_at if _acted_at else 0
	var started := Time.get_ticks_usec()
	var snapshot := Snapshot.new(_sync.roster.episodes)
	_sync.count(snapshot)
	var header := Codec.Header.new()
	header.tick = _sync.ticks_total
	header.ticks_in_step = ticks
	header.physics_us = physics_us
	header.observe_us = Time.get_ticks_usec() - started
	header.n_nodes = int(Performance.get_monitor(Performance.OBJECT_NODE_COUNT))
	var fault: String = _dialect.answer(snapshot, header)
	return true if fault.is_empty() else refuse(fault)


func _act() -> void:
	_sync.begin_step()
	var actions: Array = _dialect.actions
	var agents: Array[Node] = _sync.roster.agents
	for i: int in agents.size():
		agents[i].set_action(actions[i])
	_answer_due = true
	_first_tick = _sync.ticks_total
	_acted_at = Time.get_ticks_usec()


## The RESET that was received last.
func reset_request() -> Codec.ResetRequest:
	return _dialect.reset_request


func _call(request: Dictionary) -> Array:
	var rows: Array = request.get("agents", range(_sync.roster.agents.size()))
	return rows.map(_call_one.bind(request))


func _call_one(row: int, request: Dictionary) -> Variant:
	var agent: Node = _sync.roster.agents[row]
	var name := str(request.get("name", ""))
	var arguments: Array = request.get("args", [])
	match request.get("op"):
		"get":
			return agent.get(name)
		"set":
			agent.set(name, arguments[0])
			return null
	return agent.callv(name, arguments) if agent.has_method(name) else null


func _leave(kind: Codec.Kind) -> void:
	if kind == Codec.Kind.CLOSE:
		_sync.get_tree().quit(0)
	else:
		printerr("the trainer has gone, or sent what is no request; the game ends")
		_sync.get_tree().quit(1)

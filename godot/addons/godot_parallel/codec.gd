extends RefCounted
## Binary frames of docs/protocol.md: packs observations, unpacks actions. No socket in here.

enum Kind { STEP = 1, RESET = 2, CLOSE = 3, CALL = 4, TRANSITION = 17, RETURNS = 20, ERROR = 21 }

const PROTOCOL := 1
const HEADER_BYTES := 48
const MAX_FRAME_BYTES := 1 << 30

var agent_count: int
var obs_keys: Array[String] = []
var obs_sizes: Array[int] = []
var obs_is_bytes: Array[bool] = []
var action_keys: Array[String] = []
var action_sizes: Array[int] = []
var action_is_discrete: Array[bool] = []

var _actions: Array[Dictionary] = []


func _init(agents: int, obs_space: Dictionary, action_space: Dictionary) -> void:
	agent_count = agents
	for key: String in obs_space:
		obs_keys.append(key)
		obs_sizes.append(_element_count(obs_space[key]))
		obs_is_bytes.append(is_byte_key(key, obs_space[key]))
	for key: String in action_space:
		action_keys.append(key)
		action_sizes.append(int(action_space[key].size))
		action_is_discrete.append(action_space[key].action_type == "discrete")
	for i: int in agents:
		_actions.append({})


## Image observations ("2d" in the key, as in the old plugin) travel as bytes.
static func is_byte_key(key: String, space: Dictionary) -> bool:
	return "2d" in key and space.space == "box"


static func _element_count(space: Dictionary) -> int:
	if space.space == "discrete":
		return 1
	var product := 1
	for n: int in space.size:
		product *= n
	return product


## All agents' observations as one block a key. An error text if an agent's does not fit.
func pack_obs(observations: Array[Dictionary], blocks: Array[PackedByteArray]) -> String:
	for k: int in obs_keys.size():
		var block := PackedByteArray()
		var error := (
			_pack_bytes(k, observations, block)
			if obs_is_bytes[k]
			else _pack_floats(k, observations, block)
		)
		if error:
			return error
		blocks.append(block)
	return ""


func _pack_floats(k: int, observations: Array[Dictionary], block: PackedByteArray) -> String:
	var key := obs_keys[k]
	var size := obs_sizes[k]
	var floats := PackedFloat32Array()
	var expected := 0
	for i: int in observations.size():
		var values: Variant = observations[i].get(key)
		match typeof(values):
			TYPE_PACKED_FLOAT32_ARRAY, TYPE_ARRAY, TYPE_PACKED_FLOAT64_ARRAY:
				floats.append_array(values)
			TYPE_INT, TYPE_FLOAT, TYPE_BOOL:
				floats.append(float(values))
			_:
				return _misfit(i, key, size, "%s" % type_string(typeof(values)))
		expected += size
		if floats.size() != expected:
			return _misfit(i, key, size, str(floats.size() - expected + size))
	block.append_array(floats.to_byte_array())
	return ""


func _pack_bytes(k: int, observations: Array[Dictionary], block: PackedByteArray) -> String:
	var expected := 0
	for i: int in observations.size():
		var values: Variant = observations[i].get(obs_keys[k])
		match typeof(values):
			TYPE_PACKED_BYTE_ARRAY:
				block.append_array(values)
			TYPE_STRING:
				block.append_array((values as String).hex_decode())
			_:
				return _misfit(i, obs_keys[k], obs_sizes[k], type_string(typeof(values)))
		expected += obs_sizes[k]
		if block.size() != expected:
			return _misfit(
				i, obs_keys[k], obs_sizes[k], str(block.size() - expected + obs_sizes[k])
			)
	_pad(block)
	return ""


static func _misfit(i: int, key: String, expected: int, found: String) -> String:
	return "agent %d: observation '%s' has %s values, %d expected" % [i, key, found, expected]


static func _pad(bytes: PackedByteArray) -> void:
	while bytes.size() % 4:
		bytes.append(0)


## A whole TRANSITION frame, length prefix included.
## `header`: n_final, tick, four times in us, n_nodes, ticks_in_step, as in the specification.
func transition(
	header: Header,
	obs: Array[PackedByteArray],
	reward: PackedFloat32Array,
	terminated: PackedByteArray,
	truncated: PackedByteArray,
	tail: PackedByteArray
) -> PackedByteArray:
	var frame := PackedByteArray()
	frame.resize(4 + HEADER_BYTES)
	for block: PackedByteArray in obs:
		frame.append_array(block)
	frame.append_array(reward.to_byte_array())
	frame.append_array(terminated)
	_pad(frame)
	frame.append_array(truncated)
	_pad(frame)
	frame.append_array(tail)
	header.write(frame)
	return frame


## What follows the fixed part: rows, final observations and infos of ended episodes.
static func tail_of(
	rows: PackedInt32Array, obs: Array[PackedByteArray], info: PackedByteArray
) -> PackedByteArray:
	var tail := rows.to_byte_array()
	if not rows.is_empty():
		for block: PackedByteArray in obs:
			tail.append_array(block)
	tail.append_array(info)
	return tail


## The actions of a STEP frame, a dictionary an agent. The dictionaries are used again each step.
func unpack_actions(frame: PackedByteArray) -> Array[Dictionary]:
	var offset := 4
	for k: int in action_keys.size():
		var size := 1 if action_is_discrete[k] else action_sizes[k]
		var bytes := frame.slice(offset, offset + agent_count * size * 4)
		offset += agent_count * size * 4
		if action_is_discrete[k]:
			_set_discrete(action_keys[k], bytes.to_int32_array())
		else:
			_set_continuous(action_keys[k], size, bytes.to_float32_array())
	return _actions


## Bytes of a STEP frame without its length prefix.
func step_bytes() -> int:
	var total := 4
	for k: int in action_keys.size():
		total += agent_count * 4 * (1 if action_is_discrete[k] else action_sizes[k])
	return total


func _set_discrete(key: String, values: PackedInt32Array) -> void:
	for i: int in agent_count:
		_actions[i][key] = values[i]


func _set_continuous(key: String, size: int, values: PackedFloat32Array) -> void:
	for i: int in agent_count:
		_actions[i][key] = values.slice(i * size, (i + 1) * size)


## A frame of a kind with text in it, length prefix included.
static func text_frame(kind: Kind, text: String) -> PackedByteArray:
	var bytes := text.to_utf8_buffer()
	var frame := PackedByteArray()
	frame.resize(8)
	frame.encode_u32(0, bytes.size() + 4)
	frame.encode_u32(4, kind)
	frame.append_array(bytes)
	return frame


## The numbers at the head of a TRANSITION.
class Header:
	extends RefCounted

	var n_final := 0
	var tick := 0
	var physics_us := 0.0
	var observe_us := 0.0
	var encode_us := 0.0
	var wait_us := 0.0
	var info_bytes := 0
	var n_nodes := 0
	var ticks_in_step := 0

	## Fills the first bytes of a frame whose rest is complete.
	func write(frame: PackedByteArray) -> void:
		frame.encode_u32(0, frame.size() - 4)
		frame.encode_u32(4, Kind.TRANSITION)
		frame.encode_u32(8, n_final)
		frame.encode_u64(12, tick)
		frame.encode_float(20, physics_us)
		frame.encode_float(24, observe_us)
		frame.encode_float(28, encode_us)
		frame.encode_float(32, wait_us)
		frame.encode_u32(36, info_bytes)
		frame.encode_u32(40, n_nodes)
		frame.encode_u32(44, ticks_in_step)


## What a RESET frame asks for.
class ResetRequest:
	extends RefCounted

	var first_environment := 0
	var base_seed := 0
	var episodes := PackedInt32Array()

	func _init(frame: PackedByteArray) -> void:
		first_environment = frame.decode_u32(4)
		base_seed = frame.decode_u64(8)
		var count := frame.decode_u32(16)
		if frame.size() == 20 + 4 * count:
			episodes = frame.slice(20).to_int32_array()

	## Episode number of copy `i`; -1 where the frame is broken.
	func episode_of(i: int) -> int:
		return episodes[i] & 0xFFFFFFFF if i < episodes.size() else -1

extends TestSuite
## The codec against frames that the Python tests read too.

const Codec := preload("res://addons/godot_parallel/codec.gd")
const Streams := preload("res://addons/godot_parallel/streams.gd")


func _codec() -> Codec:
	var obs := {"obs": {"size": [2], "space": "box"}, "image_2d": {"size": [3], "space": "box"}}
	var actions := {
		"z": {"size": 3, "action_type": "discrete"}, "a": {"size": 2, "action_type": "continuous"}
	}
	return Codec.new(3, obs, actions)


static func _dictionaries(floats: Array, images: Array) -> Array[Dictionary]:
	var result: Array[Dictionary] = []
	for i: int in floats.size():
		result.append({"obs": floats[i], "image_2d": PackedByteArray(images[i])})
	return result


func test_transition_is_golden() -> void:
	var told: Dictionary = golden().transition
	var codec := _codec()
	var blocks: Array[PackedByteArray] = []
	equal(codec.pack_obs(_dictionaries(told.obs, told.image_2d), blocks), "", "fault")
	var final_blocks: Array[PackedByteArray] = []
	codec.pack_obs(_dictionaries(told.final_obs, told.final_image), final_blocks)
	var header := Codec.Header.new()
	header.n_final = 2
	header.tick = 123456789012
	header.physics_us = 10
	header.observe_us = 20
	header.encode_us = 30
	header.wait_us = 40
	var info := str(told.info).to_utf8_buffer()
	header.info_bytes = info.size()
	header.n_nodes = 55
	header.ticks_in_step = 8
	var tail := Codec.tail_of(PackedInt32Array(told.final_rows), final_blocks, info)
	var frame := codec.transition(
		header,
		blocks,
		PackedFloat32Array(told.reward),
		PackedByteArray(told.terminated),
		PackedByteArray(told.truncated),
		tail
	)
	equal(frame.hex_encode(), told.frame, "frame")


func test_step_is_golden() -> void:
	var told: Dictionary = golden().step
	var frame := str(told.frame).hex_decode().slice(4)
	var codec := _codec()
	equal(codec.step_bytes(), frame.size(), "bytes")
	var actions := codec.unpack_actions(frame)
	for i: int in 3:
		equal(actions[i].z, int(told.z[i]), "z")
		equal(actions[i].a, PackedFloat32Array(told.a[i]), "a")
		equal(actions[i].keys(), ["z", "a"], "order")


func test_reset_is_golden() -> void:
	var told: Dictionary = golden().reset
	var request := Codec.ResetRequest.new(str(told.frame).hex_decode().slice(4))
	equal(request.first_environment, int(told.first_environment), "first environment")
	equal(request.base_seed, -2, "base seed")  # 2^64 - 2 as a signed number
	for i: int in 3:
		equal(request.episode_of(i), int(told.episodes[i]), "episode")
	equal(request.episode_of(3), -1, "missing episode")


func test_seeds_are_golden() -> void:
	for row: Dictionary in golden().seeds:
		var base := _unsigned(row.base)
		var found := Streams.episode_seed(base, row.environment, row.episode, row.agent)
		equal(found, _unsigned(row.seed), "seed")


# A decimal number of 64 bits as GDScript's signed integer.
static func _unsigned(text: String) -> int:
	var value := 0
	for digit: String in text:
		value = value * 10 + int(digit)
	return value


func test_observations_that_do_not_fit_are_told() -> void:
	var codec := _codec()
	for wrong: Variant in [[1.0], [1.0, 2.0, 3.0], null, "text"]:
		var blocks: Array[PackedByteArray] = []
		var observations := _dictionaries(
			[[0, 0], [0, 0], [0, 0]], [[0, 0, 0], [0, 0, 0], [0, 0, 0]]
		)
		observations[1].obs = wrong
		var fault := codec.pack_obs(observations, blocks)
		equal(fault.begins_with("agent 1: observation 'obs' has "), true, fault)
		equal(fault.ends_with(" 2 expected"), true, fault)

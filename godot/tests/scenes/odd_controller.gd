class_name OddController
extends AIController2D
## An agent of the odd environment: agent i ends its episodes after 3 + 7 i ticks.

var number := 0
var ticks := 0
var restarts := 0
var habits := PackedStringArray()


func restart() -> void:
	ticks = 0
	restarts += 1
	reset()


func tick() -> void:
	if done:
		return
	ticks += 1
	reward += 1.0
	if ticks == (1 if "short" in habits else 3 + 7 * number):
		done = true
		restart()


func get_obs() -> Dictionary:
	var pixels := PackedByteArray([ticks, number, 255, 0, 1, 2])
	if "image" in habits:
		return {"cam_2d": pixels, "obs": [ticks]}
	if "hex" in habits:
		return {"cam_2d": pixels.hex_encode(), "obs": [ticks]}
	return {"obs": [ticks, number]}


## How often the other agent has begun anew.
func get_other_restarts() -> int:
	var other: OddController = get_parent().get_child(1 - number)
	return other.restarts


func get_obs_space() -> Dictionary:
	if "image" in habits or "hex" in habits:
		return {"cam_2d": {"size": [1, 2, 3], "space": "box"}, "obs": {"size": [1], "space": "box"}}
	return {"obs": {"size": [2], "space": "box"}}


func get_action_space() -> Dictionary:
	return {"move": {"size": 1, "action_type": "continuous"}}


func set_action(_action: Variant) -> void:
	pass


func get_info() -> Dictionary:
	return {"ticks": ticks} if "info" in habits else {}

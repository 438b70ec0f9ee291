class_name ProbeController
extends AIController2D
## Shows the probe's counters, draws and the height of its falling body.

var last_action := PackedFloat32Array()
var speed := 3.5

@onready var probe: Probe = get_parent()


func get_obs() -> Dictionary:
	if probe.has_meta(&"short"):
		return {"obs": [1.0, 2.0]}
	var drawn := probe.drawn
	return {
		"obs":
		[
			probe.ticks,
			probe.episode,
			drawn.x,
			drawn.y,
			drawn.z,
			probe.body.position.y,
			$"../Ray".observe()[0],
			n_steps
		]
	}


func get_action_space() -> Dictionary:
	return {
		"z": {"size": 3, "action_type": "discrete"}, "a": {"size": 2, "action_type": "continuous"}
	}


func set_action(action: Variant) -> void:
	last_action = PackedFloat32Array([action["z"], action["a"][0], action["a"][1]])


func get_last_action() -> Array:
	return Array(last_action)


## Frames since the start, and the deltas of the last frame and tick.
func get_clock() -> Array:
	return [probe.frames, probe.frame_delta, probe.tick_delta]


## Leaves the scene.
func leave() -> void:
	free.call_deferred()


## Brings another agent into the scene.
func multiply() -> void:
	probe.add_child.call_deferred(ProbeController.new())


## Observes another number of things from now on.
func shrink() -> void:
	probe.set_meta(&"short", true)


func add(first: float, second: float) -> float:
	return first + second

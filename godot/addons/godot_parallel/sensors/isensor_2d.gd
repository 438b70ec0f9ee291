class_name ISensor2D
extends Node2D
## Base of the 2D sensors: something that turns the world around it into numbers.

var _obs: Array = []
var _active := false


## What the sensor sees now.
func get_observation() -> Variant:
	return PackedFloat32Array()


## Switches the sensor on.
func activate() -> void:
	_active = true


## Switches the sensor off.
func deactivate() -> void:
	_active = false


func _update_observation() -> void:
	pass


## Forgets what belongs to the episode before.
func reset() -> void:
	pass

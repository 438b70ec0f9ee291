class_name Fall3DController
extends AIController3D
## Sees the body's height, and how near it is along a ray.


func get_obs() -> Dictionary:
	var fall: Fall3D = get_parent()
	return {"obs": [fall.ticks, fall.body.position.y, $"../Ray".observe()[0]]}


func get_action_space() -> Dictionary:
	return {"move": {"size": 1, "action_type": "continuous"}}


func set_action(_action: Variant) -> void:
	pass

extends Node
## Runs last in every tick: the scripts have been called, the physics step comes next.

var _callback: Callable


func _init(callback: Callable) -> void:
	_callback = callback
	name = "TickEnd"
	process_physics_priority = 1000000000


func _physics_process(_delta: float) -> void:
	_callback.call()

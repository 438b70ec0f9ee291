class_name Fall3D
extends Node3D
## A body that falls in 3D, from its start in every episode of 11 ticks.

var ticks := 0

@onready var controller: Fall3DController = $Controller
@onready var body: RigidBody3D = $Body


func _ready() -> void:
	controller.reset_requested.connect(restart)


func restart() -> void:
	ticks = 0
	body.linear_velocity = Vector3.ZERO
	body.position = Vector3(0.0, 0.0, 4.0)
	controller.reset()


func _physics_process(_delta: float) -> void:
	ticks += 1
	if ticks == 11:
		controller.done = true

class_name Odd
extends Node2D
## Unusual environments, chosen by `PROBE`: "several" agents, "image" or "hex" observations,
## episodes of one tick ("short"), infos in every step ("info"), the second agent is steered by a
## person ("bystander").

var habits := OS.get_environment("PROBE").split(" ")


func _ready() -> void:
	for i: int in 2 if "several" in habits else 1:
		var controller := OddController.new()
		controller.name = "Agent%d" % i
		controller.number = i
		controller.habits = habits
		controller.reset_after = 0
		if "bystander" in habits and i == 1:
			controller.control_mode = AIController2D.ControlModes.HUMAN
			controller.reset_after = 4
		controller.reset_requested.connect(controller.restart)
		add_child(controller)


func _physics_process(_delta: float) -> void:
	for controller: OddController in get_children():
		controller.tick()

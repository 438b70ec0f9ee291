class_name BallChaseController
extends AIController2D
## What the disc sees and does: 21 numbers in, a direction out.

## Who steers without a trainer: a person, or a simple script that goes straight for the ball.
## `-- --pilot=chaser` on the command line wins.
@export_enum("keyboard", "chaser") var pilot := "keyboard"

@onready var _sensor: RaycastSensor2D = $"../Sensor"
@onready var _disc: BallChasePlayer = get_parent()
@onready var _ball: BallChaseBall = $"../../Ball"


func _ready() -> void:
	if "--pilot=chaser" in OS.get_cmdline_user_args():
		pilot = "chaser"


## Own place (2), direction to the ball (2) and distance (1), closeness along 16 rays.
func get_obs() -> Dictionary:
	var place := _disc.position / BallChase.SIZE * 2.0 - Vector2.ONE
	var to_ball := _ball.position - _disc.position
	var distance := to_ball.length()
	var direction := to_ball / maxf(distance, 0.001)
	var obs := PackedFloat32Array(
		[place.x, place.y, direction.x, direction.y, distance / BallChase.SIZE.x]
	)
	obs.append_array(_sensor.observe())
	return {"obs": obs}


func get_action_space() -> Dictionary:
	return {"move": {"size": 2, "action_type": "continuous"}}


func set_action(action: Variant) -> void:
	_disc.wanted = Vector2(action["move"][0], action["move"][1]).limit_length()


func get_info() -> Dictionary:
	if done:
		return {"balls": _disc.balls, "wall_hit": _disc.wall_hit}
	return {}


## Where a person or the scripted chaser wants to go.
func human_direction() -> Vector2:
	if pilot == "chaser":
		return chaser_direction()
	var letters := Vector2(
		float(Input.is_physical_key_pressed(KEY_D)) - float(Input.is_physical_key_pressed(KEY_A)),
		float(Input.is_physical_key_pressed(KEY_S)) - float(Input.is_physical_key_pressed(KEY_W))
	)
	var arrows := Input.get_vector(&"ui_left", &"ui_right", &"ui_up", &"ui_down")
	return (letters + arrows).limit_length()


## Straight to the ball, turned away from what is near.
func chaser_direction() -> Vector2:
	var direction := (_ball.position - _disc.position).normalized()
	var closeness := _sensor.observe()
	for i: int in closeness.size():
		var ray := _sensor.rays[i].target_position.normalized()
		direction -= ray * closeness[i] * closeness[i] * 1.2
	return direction.limit_length()

class_name Probe
extends Node2D
## A tiny environment whose numbers a test can work out by hand. `PROBE` chooses its habits:
## "callback" (resets itself where it ends), "signal", or "poll", plus words such as "limit".

var ticks := 0
var episode := 0
var drawn := Vector3.ZERO
var own_rng := RandomNumberGenerator.new()
var habits := OS.get_environment("PROBE").split(" ")
var length := int(OS.get_environment("PROBE_LENGTH"))
var frames := 0
var frame_delta := 0.0
var tick_delta := 0.0

@onready var controller: ProbeController = $Controller
@onready var body: RigidBody2D = $Body


func _ready() -> void:
	own_rng.randomize()
	if "signal" in habits:
		controller.reset_requested.connect(restart)
	if "limit" in habits:
		controller.reset_after = length
		length = 0


func restart() -> void:
	ticks = 0
	episode += 1
	drawn = Vector3(controller.rng.randf(), randf(), own_rng.randf())
	body.linear_velocity = Vector2.ZERO
	body.position = Vector2(100.0, 0.0)
	body.reset_physics_interpolation()
	controller.reset()


func _process(delta: float) -> void:
	frames += 1
	frame_delta = delta


func _physics_process(delta: float) -> void:
	tick_delta = delta
	if controller.needs_reset and "poll" in habits:
		restart()
		return
	ticks += 1
	controller.reward += 1.0
	if length > 0 and ticks == length:
		_end()


func _end() -> void:
	if "poll" in habits:
		controller.needs_reset = true
	controller.done = true
	if "callback" in habits:
		restart()
		controller.reward += 100.0 if "leak" in habits else 0.0

extends RefCounted
## How fast the engine's clock runs. The physics delta is the project's own in every case.

const LaunchOptions := preload("launch_options.gd")
## Tick rate, as a multiple of the project's own, that no machine reaches.
const AS_FAST_AS_POSSIBLE := 1000


## In a window: `speed_up` times real time. Without one, in training: as fast as possible.
static func apply(speed_up: float, options: LaunchOptions, is_training: bool) -> void:
	if DisplayServer.get_name() != "headless":
		_scale(speed_up)
		Engine.max_physics_steps_per_frame = maxi(8, ceili(speed_up))
	elif is_training:
		# A headless engine sleeps 6.9 ms in every frame otherwise.
		OS.low_processor_usage_mode_sleep_usec = 1
		if not options.lockstep:
			_scale(AS_FAST_AS_POSSIBLE)
			Engine.max_physics_steps_per_frame = 1


static func _scale(factor: float) -> void:
	var own_rate: int = ProjectSettings.get_setting("physics/common/physics_ticks_per_second", 60)
	Engine.physics_ticks_per_second = maxi(1, roundi(own_rate * factor))
	Engine.time_scale = float(Engine.physics_ticks_per_second) / own_rate

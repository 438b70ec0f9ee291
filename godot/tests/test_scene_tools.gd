extends TestSuite
## Spacing of copies, sensors, configuration warnings.

const Footprint := preload("res://addons/godot_parallel/footprint.gd")
const Checks := preload("res://addons/godot_parallel/checks.gd")
const BALL_CHASE := preload("res://games/ball_chase/ball_chase.tscn")


func test_copies_stand_further_apart_than_their_sensors_reach() -> void:
	var copy := BALL_CHASE.instantiate()
	add_child(copy)
	var step := Footprint.spacing(copy)
	near(step.x, 1280.0 * 1.1 + 200.0, "x")  # the arena, a tenth more, and rays of 200
	near(step.y, 720.0 * 1.1 + 200.0, "y")
	equal(Footprint.cell(0, 16, step), Vector3.ZERO, "first")
	equal(Footprint.cell(5, 16, step), Vector3(step.x, step.y, step.z), "second row")


func test_rays_tell_closeness_by_angle() -> void:
	var wall := StaticBody2D.new()
	var shape := CollisionShape2D.new()
	var rectangle := RectangleShape2D.new()
	rectangle.size = Vector2(20, 400)
	shape.shape = rectangle
	wall.add_child(shape)
	wall.position = Vector2(60, 0)
	add_child(wall)
	var sensor := RaycastSensor2D.new()
	sensor.n_rays = 4
	sensor.cone_width = 360
	sensor.ray_length = 100
	add_child(sensor)
	await get_tree().physics_frame
	await get_tree().physics_frame
	var found := sensor.observe()
	# Angles -135, -45, 45, 135 degrees; the face is 50 px to the right, 70.7 px along a diagonal.
	near(found[1], (100.0 - 50.0 * sqrt(2.0)) / 100.0, "-45 degrees")
	near(found[2], found[1], "45 degrees")
	equal([found[0], found[3]], [0.0, 0.0], "behind")
	equal(sensor.get_observation(), Array(found), "as an array")


func test_rays_in_3d_go_column_by_column() -> void:
	var sensor := RayCastSensor3D.new()
	sensor.n_rays_width = 2
	sensor.n_rays_height = 2
	sensor.cone_width = 60
	sensor.cone_height = 60
	add_child(sensor)
	equal(sensor.rays.size(), 4, "rays")
	var first := sensor.rays[0].target_position
	near(first.length(), 10.0, "length")
	near(first.x, 10.0 * sin(deg_to_rad(-15)) * cos(deg_to_rad(-15)), "x")
	near(first.y, 10.0 * sin(deg_to_rad(-15)), "y")
	near(sensor.rays[1].target_position.y, 10.0 * sin(deg_to_rad(15)), "second is above the first")
	equal(sensor.observe(), PackedFloat32Array([0, 0, 0, 0]), "nothing there")


func test_scenes_that_are_set_up_wrongly_get_warnings() -> void:
	var scene := Node.new()
	var sync := Sync.new()
	sync.control_mode = Sync.ControlModes.HUMAN
	scene.add_child(sync)
	add_child(scene)
	sync.owner = scene
	equal(Checks.scene_warnings(sync).size(), 1, "no agents")
	var second := Sync.new()
	scene.add_child(second)
	equal(Checks.scene_warnings(sync)[0].contains("2 Sync nodes"), true, "two")
	for i: int in 2:
		scene.add_child(BALL_CHASE.instantiate())
	var warnings := "\n".join(Checks.scene_warnings(sync))
	equal(warnings.contains("on one spot"), true, warnings)
	scene.free()


func test_a_replicator_without_scene_warns() -> void:
	var replicator := Replicator.new()
	equal(replicator._get_configuration_warnings().size(), 1, "warnings")
	replicator.environment = BALL_CHASE
	equal(replicator._get_configuration_warnings().size(), 0, "warnings")
	replicator.free()


func test_the_display_tells_a_mean() -> void:
	equal(Hud.mean_text(PackedFloat32Array()), "-", "none")
	equal(Hud.mean_text(PackedFloat32Array([1.0, 2.0, 4.5])), "2.5", "mean")


func test_ball_chase_walls_are_where_they_are_drawn() -> void:
	equal(BallChase.touches_wall(Vector2(640, 360), 30.0), false, "middle")
	equal(BallChase.touches_wall(Vector2(51, 360), 30.0), false, "1 px off the wall")
	equal(BallChase.touches_wall(Vector2(49, 360), 30.0), true, "1 px into the wall")
	equal(BallChase.touches_wall(Vector2(349, 360), 30.0), false, "1 px off the obstacle")
	equal(BallChase.touches_wall(Vector2(351, 360), 30.0), true, "1 px into the obstacle")
	equal(BallChase.touches_wall(Vector2(360, 180), 30.0), true, "corner: 28.3 px away")
	equal(BallChase.touches_wall(Vector2(357, 177), 30.0), false, "corner: 32.5 px away")

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
	replicator.instances = 1
	var scene := Node.new()
	scene.add_child(replicator)
	replicator.owner = scene
	add_child(scene)
	var warnings := replicator._get_configuration_warnings()
	equal(warnings.size() == 1 and "no Sync" in warnings[0], true, str(warnings))
	var sync := Sync.new()
	sync.control_mode = Sync.ControlModes.HUMAN
	scene.add_child(sync)
	equal(replicator._get_configuration_warnings().size(), 0, "with a Sync")
	scene.free()


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


func test_without_a_trainer_episodes_end_and_begin() -> void:
	var play: Node = load("res://games/ball_chase/play.tscn").instantiate()
	add_child(play)
	var sync: Sync = play.get_node("Sync")
	var controller: BallChaseController = play.get_node("BallChase/Player/Controller")
	controller.pilot = "chaser"
	while sync.ticks_total < 3100:
		await get_tree().physics_frame
	equal(sync.instance_count, 1, "instances")
	# Three time limits of 1000 ticks; a chaser that hits a wall only adds episodes.
	equal(sync.episodes_finished >= 3, true, "episodes: %d" % sync.episodes_finished)
	equal(sync.recent_returns.size(), sync.episodes_finished, "returns")
	equal(controller.n_steps <= 1000, true, "ticks of the running episode")


func test_a_last_observation_does_not_change_afterwards() -> void:
	var sensor := RaycastSensor2D.new()
	add_child(sensor)
	var kept: Dictionary = {"obs": sensor.observe()}.duplicate(true)
	sensor.observe()[0] = 7.0
	equal(kept.obs[0], 0.0, "kept")


func test_the_class_bit_knows_every_kind_of_body() -> void:
	var box := CSGBox3D.new()
	box.use_collision = true
	box.position = Vector3(0.0, 0.0, 5.0)
	add_child(box)
	var sensor := RayCastSensor3D.new()
	sensor.n_rays_width = 1
	sensor.n_rays_height = 1
	sensor.class_sensor = true
	add_child(sensor)
	await get_tree().physics_frame
	await get_tree().physics_frame
	var found := sensor.observe()
	near(found[0], (10.0 - 4.5) / 10.0, "closeness")
	equal(found[1], 1.0, "class")

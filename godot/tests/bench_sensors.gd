extends SceneTree
## Ways to ask for a fan of rays, timed side by side. Prints one line of JSON: microseconds a ray.
##
##     godot --headless --fixed-fps 60 --path godot --script res://tests/bench_sensors.gd
##
## "near": every ray hits a wall or one of four blocks. "far": nothing is in reach.

const RAYS := 16
const REPEATS := 5
const ROUNDS := 400
const LENGTH_2D := 300.0
const LENGTH_3D := 10.0

var _results := {}
var _sink := 0.0


func _initialize() -> void:
	await process_frame
	for place: String in ["near", "far"]:
		await _bench_2d(place)
		await _bench_3d(place)
	print(JSON.stringify(_results))
	quit(0)


func _time(name: String, work: Callable) -> void:
	var best := INF
	for repeat: int in REPEATS:
		var started := Time.get_ticks_usec()
		for turn: int in ROUNDS:
			work.call()
		best = minf(best, float(Time.get_ticks_usec() - started) / ROUNDS / RAYS)
	_results[name] = snappedf(best, 0.001)


#region 2D
func _bench_2d(place: String) -> void:
	var world := Node2D.new()
	root.add_child(world)
	for i: int in 4:
		var at := Vector2.from_angle(i * TAU / 4.0)
		_add_block_2d(world, at * 250.0, Vector2(20.0, 600.0), i * TAU / 4.0)
		_add_block_2d(world, at.rotated(TAU / 8.0) * 150.0, Vector2(60.0, 60.0), 0.0)
	var body := CharacterBody2D.new()
	var shape := CollisionShape2D.new()
	shape.shape = CircleShape2D.new()
	body.add_child(shape)
	body.position = Vector2.ZERO if place == "near" else Vector2(5000.0, 5000.0)
	world.add_child(body)
	var sensor := RaycastSensor2D.new()
	sensor.ray_length = int(LENGTH_2D)
	body.add_child(sensor)
	await physics_frame
	await physics_frame
	var key := "2d %s: " % place
	_time(key + "the sensor as it is", func() -> void: _sink += sensor.observe()[0])
	_time(key + "disabled nodes, forced", _forced_2d.bind(sensor))
	_time(key + "nodes, updated by the engine, read only", _read_2d.bind(sensor))
	_time(key + "one node, moved", _moved_2d.bind(_one_ray_2d(body), sensor))
	_time(key + "intersect_ray, parameters reused", _queried_2d.bind(_query_2d(body), sensor))
	_time(key + "intersect_ray, new parameters", _created_2d.bind(body, sensor))
	_time(key + "one look at the circle first", _looked_2d.bind(_circle(body), sensor))
	world.free()


static func _add_block_2d(world: Node2D, at: Vector2, size: Vector2, angle: float) -> void:
	var body := StaticBody2D.new()
	var shape := CollisionShape2D.new()
	var rectangle := RectangleShape2D.new()
	rectangle.size = size
	shape.shape = rectangle
	body.add_child(shape)
	body.position = at
	body.rotation = angle
	world.add_child(body)


static func _one_ray_2d(body: CharacterBody2D) -> RayCast2D:
	var ray := RayCast2D.new()
	ray.enabled = false
	ray.add_exception(body)
	body.add_child(ray)
	return ray


static func _query_2d(body: CharacterBody2D) -> PhysicsRayQueryParameters2D:
	var query := PhysicsRayQueryParameters2D.new()
	query.exclude = [body.get_rid()]
	return query


static func _circle(body: CharacterBody2D) -> PhysicsShapeQueryParameters2D:
	var query := PhysicsShapeQueryParameters2D.new()
	var circle := CircleShape2D.new()
	circle.radius = LENGTH_2D
	query.shape = circle
	query.transform = body.global_transform
	query.exclude = [body.get_rid()]
	return query


func _forced_2d(sensor: RaycastSensor2D) -> void:
	for ray: RayCast2D in sensor.rays:
		ray.force_raycast_update()
		if ray.is_colliding():
			_sink += sensor.global_position.distance_to(ray.get_collision_point())


func _read_2d(sensor: RaycastSensor2D) -> void:
	for ray: RayCast2D in sensor.rays:
		if ray.is_colliding():
			_sink += sensor.global_position.distance_to(ray.get_collision_point())


func _moved_2d(ray: RayCast2D, sensor: RaycastSensor2D) -> void:
	for other: RayCast2D in sensor.rays:
		ray.target_position = other.target_position
		ray.force_raycast_update()
		if ray.is_colliding():
			_sink += sensor.global_position.distance_to(ray.get_collision_point())


func _queried_2d(query: PhysicsRayQueryParameters2D, sensor: RaycastSensor2D) -> void:
	var space := sensor.get_world_2d().direct_space_state
	var from := sensor.global_position
	query.from = from
	for ray: RayCast2D in sensor.rays:
		query.to = from + ray.target_position
		var hit := space.intersect_ray(query)
		if hit:
			_sink += from.distance_to(hit.position)


func _created_2d(body: CharacterBody2D, sensor: RaycastSensor2D) -> void:
	var space := sensor.get_world_2d().direct_space_state
	var from := sensor.global_position
	for ray: RayCast2D in sensor.rays:
		var query := PhysicsRayQueryParameters2D.create(
			from, from + ray.target_position, 1, [body.get_rid()]
		)
		var hit := space.intersect_ray(query)
		if hit:
			_sink += from.distance_to(hit.position)


func _looked_2d(circle: PhysicsShapeQueryParameters2D, sensor: RaycastSensor2D) -> void:
	var space := sensor.get_world_2d().direct_space_state
	if not space.intersect_shape(circle, 1).is_empty():
		_forced_2d(sensor)


#endregion


#region 3D
func _bench_3d(place: String) -> void:
	var world := Node3D.new()
	root.add_child(world)
	for i: int in 4:
		var at := Vector3.FORWARD.rotated(Vector3.UP, i * TAU / 4.0)
		_add_block_3d(world, at * 8.0, Vector3(30.0, 10.0, 0.5), i * TAU / 4.0)
		_add_block_3d(world, at.rotated(Vector3.UP, TAU / 8.0) * 5.0, Vector3(2.0, 2.0, 2.0), 0.0)
	var body := CharacterBody3D.new()
	var shape := CollisionShape3D.new()
	shape.shape = SphereShape3D.new()
	body.add_child(shape)
	body.position = Vector3.ZERO if place == "near" else Vector3(0.0, 1000.0, 0.0)
	world.add_child(body)
	var sensor := RayCastSensor3D.new()
	sensor.ray_length = LENGTH_3D
	sensor.n_rays_width = 4
	sensor.n_rays_height = 4
	sensor.cone_height = 20.0
	body.add_child(sensor)
	await physics_frame
	await physics_frame
	var key := "3d %s: " % place
	var query := PhysicsRayQueryParameters3D.new()
	query.exclude = [body.get_rid()]
	var one := RayCast3D.new()
	one.enabled = false
	one.add_exception(body)
	body.add_child(one)
	_time(key + "the sensor as it is", func() -> void: _sink += sensor.observe()[0])
	_time(key + "disabled nodes, forced", _forced_3d.bind(sensor))
	_time(key + "nodes, updated by the engine, read only", _read_3d.bind(sensor))
	_time(key + "one node, moved", _moved_3d.bind(one, sensor))
	_time(key + "intersect_ray, parameters reused", _queried_3d.bind(query, sensor))
	world.free()


static func _add_block_3d(world: Node3D, at: Vector3, size: Vector3, angle: float) -> void:
	var body := StaticBody3D.new()
	var shape := CollisionShape3D.new()
	var box := BoxShape3D.new()
	box.size = size
	shape.shape = box
	body.add_child(shape)
	body.position = at
	body.rotation.y = angle
	world.add_child(body)


func _forced_3d(sensor: RayCastSensor3D) -> void:
	for ray: RayCast3D in sensor.rays:
		ray.force_raycast_update()
		if ray.is_colliding():
			_sink += sensor.global_position.distance_to(ray.get_collision_point())


func _read_3d(sensor: RayCastSensor3D) -> void:
	for ray: RayCast3D in sensor.rays:
		if ray.is_colliding():
			_sink += sensor.global_position.distance_to(ray.get_collision_point())


func _moved_3d(one: RayCast3D, sensor: RayCastSensor3D) -> void:
	for ray: RayCast3D in sensor.rays:
		one.target_position = ray.target_position
		one.force_raycast_update()
		if one.is_colliding():
			_sink += sensor.global_position.distance_to(one.get_collision_point())


func _queried_3d(query: PhysicsRayQueryParameters3D, sensor: RayCastSensor3D) -> void:
	var space := sensor.get_world_3d().direct_space_state
	var from := sensor.global_position
	var basis := sensor.global_basis
	query.from = from
	for ray: RayCast3D in sensor.rays:
		query.to = from + basis * ray.target_position
		var hit := space.intersect_ray(query)
		if hit:
			_sink += from.distance_to(hit.position)
#endregion

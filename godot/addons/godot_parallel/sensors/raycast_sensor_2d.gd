@tool
class_name RaycastSensor2D
extends ISensor2D
## A fan of rays; each tells how close the nearest thing is: 1 at the sensor, 0 at the ray's end or
## beyond. The order is that of growing angles, beginning at minus half of the cone.

@export_flags_2d_physics var collision_mask := 1:
	set(value):
		collision_mask = value
		_update()
@export var collide_with_areas := false:
	set(value):
		collide_with_areas = value
		_update()
@export var collide_with_bodies := true:
	set(value):
		collide_with_bodies = value
		_update()
@export_range(1, 256, 1, "or_greater") var n_rays := 16.0:
	set(value):
		n_rays = value
		_update()
## Length of a ray in pixels.
@export_range(5, 3000, 5.0) var ray_length := 200:
	set(value):
		ray_length = value
		_update()
## Angle of the fan in degrees.
@export_range(5, 360, 5.0) var cone_width := 360.0:
	set(value):
		cone_width = value
		_update()
## Draws the rays, in the editor and in a window.
@export var debug_draw := true:
	set(value):
		debug_draw = value
		queue_redraw()

## The ray nodes.
var rays: Array[RayCast2D] = []

var _closeness := PackedFloat32Array()


func _ready() -> void:
	_update()


func _update() -> void:
	if is_node_ready() or is_inside_tree():
		_spawn_rays()
		queue_redraw()


func _spawn_rays() -> void:
	for ray: RayCast2D in rays:
		ray.free()
	rays.clear()
	var body := _own_body()
	for i: int in int(n_rays):
		var ray := RayCast2D.new()
		ray.target_position = Vector2.from_angle(_angle(i)) * ray_length
		ray.enabled = false  # asked by hand: costs nothing in other ticks
		ray.collide_with_areas = collide_with_areas
		ray.collide_with_bodies = collide_with_bodies
		ray.collision_mask = collision_mask
		if body:
			ray.add_exception(body)
		add_child(ray, false, INTERNAL_MODE_BACK)
		rays.append(ray)
	_closeness.resize(rays.size())


func _angle(i: int) -> float:
	var step := cone_width / n_rays
	return deg_to_rad(step / 2.0 - cone_width / 2.0 + i * step)


func _own_body() -> CollisionObject2D:
	var node := get_parent()
	while node and not node is CollisionObject2D:
		node = node.get_parent()
	return node


## Closeness along each ray, 0..1. The array is used again in the next call.
func observe() -> PackedFloat32Array:
	var origin := global_position
	var length := float(ray_length)
	for i: int in rays.size():
		var ray := rays[i]
		ray.force_raycast_update()
		if ray.is_colliding():
			var distance := origin.distance_to(ray.get_collision_point())
			_closeness[i] = maxf(0.0, (length - distance) / length)
		else:
			_closeness[i] = 0.0
	return _closeness


func get_observation() -> Array:
	return Array(observe())


## The same as [method get_observation].
func calculate_raycasts() -> Array:
	return Array(observe())


func _draw() -> void:
	if debug_draw:
		for ray: RayCast2D in rays:
			draw_line(Vector2.ZERO, ray.target_position, Color(1, 1, 1, 0.12), 1.0)

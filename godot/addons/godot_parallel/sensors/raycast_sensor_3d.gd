@tool
class_name RayCastSensor3D
extends ISensor3D
## A grid of rays; each tells how close the nearest thing is: 1 at the sensor, 0 at the ray's end or
## beyond. With [member class_sensor] a second number a ray tells whether the thing is of a class.

@export_flags_3d_physics var collision_mask := 1:
	set(value):
		collision_mask = value
		_update()
## Collision layers that count as the class.
@export_flags_3d_physics var boolean_class_mask := 1:
	set(value):
		boolean_class_mask = value
@export_range(1, 64, 1, "or_greater") var n_rays_width := 6.0:
	set(value):
		n_rays_width = value
		_update()
@export_range(1, 64, 1, "or_greater") var n_rays_height := 6.0:
	set(value):
		n_rays_height = value
		_update()
## Length of a ray in metres.
@export var ray_length := 10.0:
	set(value):
		ray_length = value
		_update()
## Horizontal angle of the fan in degrees.
@export var cone_width := 60.0:
	set(value):
		cone_width = value
		_update()
## Vertical angle of the fan in degrees.
@export var cone_height := 60.0:
	set(value):
		cone_height = value
		_update()
@export var collide_with_areas := false:
	set(value):
		collide_with_areas = value
		_update()
@export var collide_with_bodies := true:
	set(value):
		collide_with_bodies = value
		_update()
## Adds a 0 or 1 behind each ray's closeness: whether the thing is in [member boolean_class_mask].
@export var class_sensor := false

## The ray nodes, column by column.
var rays: Array[RayCast3D] = []


func _ready() -> void:
	_update()


func _update() -> void:
	if is_node_ready() or is_inside_tree():
		_spawn_rays()


func _spawn_rays() -> void:
	for ray: RayCast3D in rays:
		ray.free()
	rays.clear()
	var body := _own_body()
	for i: int in int(n_rays_width):
		for j: int in int(n_rays_height):
			var ray := RayCast3D.new()
			ray.target_position = _direction(i, j) * ray_length
			ray.enabled = false  # asked by hand: costs nothing in other ticks
			ray.collide_with_areas = collide_with_areas
			ray.collide_with_bodies = collide_with_bodies
			ray.collision_mask = collision_mask
			if body:
				ray.add_exception(body)
			add_child(ray, false, INTERNAL_MODE_BACK)
			rays.append(ray)


func _direction(i: int, j: int) -> Vector3:
	var step_w := cone_width / n_rays_width
	var step_h := cone_height / n_rays_height
	var w := deg_to_rad(step_w / 2.0 - cone_width / 2.0 + i * step_w)
	var h := deg_to_rad(step_h / 2.0 - cone_height / 2.0 + j * step_h)
	return Vector3(sin(w) * cos(h), sin(h), cos(w) * cos(h))


func _own_body() -> CollisionObject3D:
	var node := get_parent()
	while node and not node is CollisionObject3D:
		node = node.get_parent()
	return node


## Closeness along each ray, 0..1, and the class bit where asked for.
func observe() -> PackedFloat32Array:
	var result := PackedFloat32Array()
	var origin := global_position
	for ray: RayCast3D in rays:
		ray.force_raycast_update()
		var closeness := 0.0
		if ray.is_colliding():
			var distance := origin.distance_to(ray.get_collision_point())
			closeness = maxf(0.0, (ray_length - distance) / ray_length)
		result.append(closeness)
		if class_sensor:
			result.append(_class_bit(ray))
	return result


func _class_bit(ray: RayCast3D) -> float:
	var hit := ray.get_collider()
	var layers: Variant = hit.get(&"collision_layer") if hit else null  # CSG and GridMap too
	return float(layers is int and layers & collision_mask & boolean_class_mask > 0)


func get_observation() -> Array:
	return Array(observe())


## The same as [method get_observation].
func calculate_raycasts() -> Array:
	return Array(observe())

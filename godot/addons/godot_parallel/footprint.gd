extends RefCounted
## How much room a copy needs beside the next one in the same world.

## Distance kept beyond what was measured, as a share of it.
const MARGIN := 0.1
const DEFAULT_SIZE := 1000.0


## Distances between neighbours on the x, y and z axes: bodies, and how far sensors reach.
static func spacing(copy: Node) -> Vector3:
	var box := AABB()
	var is_empty := true
	var reach := 0.0
	for node: Node in copy.find_children("*", "", true, false):
		var part := _box_of(node)
		if part.size != Vector3.ZERO:
			box = part if is_empty else box.merge(part)
			is_empty = false
		reach = maxf(reach, _reach_of(node))
	if is_empty:
		box.size = Vector3.ONE * DEFAULT_SIZE
	return box.size * (1.0 + MARGIN) + Vector3.ONE * reach


## Offset of copy `i` of `count` on a square grid: x and y in 2D, x and z in 3D.
static func cell(i: int, count: int, step: Vector3) -> Vector3:
	var columns := ceili(sqrt(count))
	var column := i % columns
	@warning_ignore("integer_division")
	var row := i / columns
	return Vector3(column * step.x, row * step.y, row * step.z)


static func _box_of(node: Node) -> AABB:
	if node is CollisionShape2D and (node as CollisionShape2D).shape:
		var shape := node as CollisionShape2D
		return _flat(shape.global_transform * shape.shape.get_rect())
	if node is CollisionPolygon2D:
		return _around(node as CollisionPolygon2D)
	if node is CollisionShape3D and (node as CollisionShape3D).shape:
		var solid := node as CollisionShape3D
		return solid.global_transform * solid.shape.get_debug_mesh().get_aabb()
	return AABB()


static func _flat(rect: Rect2) -> AABB:
	return AABB(
		Vector3(rect.position.x, rect.position.y, 0.0), Vector3(rect.size.x, rect.size.y, 0.0)
	)


static func _around(node: CollisionPolygon2D) -> AABB:
	if node.polygon.is_empty():
		return AABB()
	var rect := Rect2(node.polygon[0], Vector2.ZERO)
	for point: Vector2 in node.polygon:
		rect = rect.expand(point)
	return _flat(node.global_transform * rect)


static func _reach_of(node: Node) -> float:
	if node is RayCast2D:
		return (node as RayCast2D).target_position.length()
	if node is RayCast3D:
		return (node as RayCast3D).target_position.length()
	var length: Variant = node.get("ray_length")
	return float(length) if length is float or length is int else 0.0

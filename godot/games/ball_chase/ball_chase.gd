@tool
class_name BallChase
extends Node2D
## The arena: walls, two obstacles, a disc that chases a ball. All places are relative to this node.

const SIZE := Vector2(1280.0, 720.0)
const WALL := 20.0
const OBSTACLES: Array[Rect2] = [Rect2(380.0, 200.0, 60.0, 320.0), Rect2(840.0, 200.0, 60.0, 320.0)]
## Distance of a new disc or ball from walls and obstacles, centre to edge.
const CLEARANCE := 50.0
## A new ball lies at least this far from the disc.
const BALL_DISTANCE := 120.0
const FLOOR := Color("20242f")
const WALL_COLOR := Color("4b5568")
const OBSTACLE_COLOR := Color("64708a")


func _ready() -> void:
	if Engine.is_editor_hint():
		return
	for rect: Rect2 in _walls() + OBSTACLES:
		_add_block(rect)


static func _walls() -> Array[Rect2]:
	return [
		Rect2(0.0, 0.0, SIZE.x, WALL),
		Rect2(0.0, SIZE.y - WALL, SIZE.x, WALL),
		Rect2(0.0, 0.0, WALL, SIZE.y),
		Rect2(SIZE.x - WALL, 0.0, WALL, SIZE.y)
	]


func _add_block(rect: Rect2) -> void:
	var body := StaticBody2D.new()
	var shape := CollisionShape2D.new()
	var rectangle := RectangleShape2D.new()
	rectangle.size = rect.size
	shape.shape = rectangle
	body.position = rect.get_center()
	body.add_child(shape)
	add_child(body)


## Whether a disc touches a wall or an obstacle.
static func touches_wall(place: Vector2, radius: float) -> bool:
	var edge := WALL + radius
	if place.x < edge or place.y < edge or place.x > SIZE.x - edge or place.y > SIZE.y - edge:
		return true
	for rect: Rect2 in OBSTACLES:
		if place.clamp(rect.position, rect.end).distance_squared_to(place) < radius * radius:
			return true
	return false


## A place clear of walls and obstacles, and `distance` away from `other`.
static func free_place(rng: RandomNumberGenerator, other: Vector2, distance: float) -> Vector2:
	var margin := WALL + CLEARANCE
	while true:
		var place := Vector2(
			rng.randf_range(margin, SIZE.x - margin), rng.randf_range(margin, SIZE.y - margin)
		)
		if place.distance_to(other) >= distance and _is_clear(place):
			return place
	return SIZE / 2.0


static func _is_clear(place: Vector2) -> bool:
	for rect: Rect2 in OBSTACLES:
		if rect.grow(CLEARANCE).has_point(place):
			return false
	return true


func _draw() -> void:
	draw_rect(Rect2(Vector2.ZERO, SIZE), FLOOR)
	for rect: Rect2 in _walls():
		draw_rect(rect, WALL_COLOR)
	for rect: Rect2 in OBSTACLES:
		draw_rect(rect, OBSTACLE_COLOR)
		draw_rect(rect.grow(-6.0), OBSTACLE_COLOR.darkened(0.15))

@tool
class_name BallChaseBall
extends Node2D
## The ball: lies still until it is caught.

const RADIUS := 30.0
const COLOR := Color("ffb84c")


func _draw() -> void:
	draw_circle(Vector2.ZERO, RADIUS, COLOR)
	draw_circle(Vector2(-9.0, -9.0), RADIUS * 0.3, COLOR.lightened(0.5))

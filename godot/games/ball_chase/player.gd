class_name BallChasePlayer
extends Node2D
## The disc: steered towards where it wants to go, rewarded for coming nearer to the ball.
##
## It is no physics body: whether a disc touches a rectangle is two lines of arithmetic, and costs a
## tenth of a moving body, whose pairs the physics server hands to a worker thread in every tick.

const RADIUS := 30.0
const SPEED := 500.0  # px/s
const STEERING := 0.18  # share of the wanted change of velocity that one tick brings
const TICK_REWARD := -0.01
const BALL_REWARD := 10.0
const WALL_REWARD := -10.0
const PIXELS_PER_REWARD := 100.0
const COLOR := Color("4cc2ff")

var velocity := Vector2.ZERO  ## px/s
## Wanted direction, at most 1 long.
var wanted := Vector2.ZERO
## Balls caught in this episode.
var balls := 0
var wall_hit := false

var _nearest := INF

@onready var controller: BallChaseController = $Controller
@onready var _ball: BallChaseBall = $"../Ball"


func _ready() -> void:
	controller.init(self)
	controller.reset_requested.connect(restart)
	set_process(DisplayServer.get_name() != "headless")
	restart()


## Puts the game back to its start.
func restart() -> void:
	controller.reset()
	velocity = Vector2.ZERO
	wanted = Vector2.ZERO
	balls = 0
	wall_hit = false
	position = BallChase.free_place(controller.rng, Vector2.INF, 0.0)
	_place_ball()


func _place_ball() -> void:
	_ball.position = BallChase.free_place(controller.rng, position, BallChase.BALL_DISTANCE)
	_nearest = position.distance_to(_ball.position)


func _physics_process(delta: float) -> void:
	if controller.heuristic == "human":
		wanted = controller.human_direction()
	velocity += (wanted * SPEED - velocity) * STEERING
	position += velocity * delta
	if BallChase.touches_wall(position, RADIUS):
		_end_at_wall()
		return
	controller.reward += TICK_REWARD
	_chase()


func _chase() -> void:
	var distance := position.distance_to(_ball.position)
	if distance < _nearest:
		controller.reward += (_nearest - distance) / PIXELS_PER_REWARD
		_nearest = distance
	if distance < RADIUS + BallChaseBall.RADIUS:
		controller.reward += BALL_REWARD
		balls += 1
		_place_ball()


func _end_at_wall() -> void:
	controller.reward += TICK_REWARD + WALL_REWARD
	wall_hit = true
	controller.done = true


func _process(_delta: float) -> void:
	queue_redraw()


func _draw() -> void:
	draw_circle(Vector2.ZERO, RADIUS, COLOR)
	draw_circle(Vector2.ZERO, RADIUS - 6.0, COLOR.darkened(0.35))
	draw_line(Vector2.ZERO, velocity.limit_length(SPEED) / SPEED * RADIUS, Color.WHITE, 4.0)

@tool
class_name Replicator
extends Node
## Makes the copies of an environment scene: nobody duplicates nodes by hand.
##
## Each copy gets physics worlds of its own (isolation "world"), so that copies can never touch; or
## all stand in one world, spaced out by their measured size (isolation "grid").

enum Isolation {
	WORLD,  ## Each copy in physics worlds of its own.
	GRID,  ## All in one world, spaced out.
}

const LaunchOptions := preload("launch_options.gd")
const Streams := preload("streams.gd")
const Footprint := preload("footprint.gd")
const Tiles := preload("tiles.gd")
const Checks := preload("checks.gd")

## The scene to be copied.
@export var environment: PackedScene:
	set(value):
		environment = value
		update_configuration_warnings()
## How many copies; `--instances` on the command line wins.
@export_range(1, 64, 1, "or_greater") var instances := 1
## Whether copies share a physics world; `--isolation` on the command line wins.
@export var isolation := Isolation.WORLD

## The roots of the copies, in the order of their numbers.
var copies: Array[Node] = []


func _ready() -> void:
	if Engine.is_editor_hint():
		return
	add_to_group("REPLICATOR")
	var options: LaunchOptions = LaunchOptions.read()
	if options.instances > 0:
		instances = options.instances
	if options.isolation:
		isolation = Isolation.GRID if options.isolation == "grid" else Isolation.WORLD
	if environment == null:
		push_error("Replicator %s has no environment scene to copy" % get_path())
		return
	_make_copies(options)


func _make_copies(options: LaunchOptions) -> void:
	var tiles: Tiles = Tiles.new(self, instances) if isolation == Isolation.WORLD else null
	var step := Vector3.ZERO
	for i: int in instances:
		# Draws made in _ready differ between environments, and are the same in the next run.
		var number := options.first_environment + i
		seed(Streams.episode_seed(options.base_seed, number, Streams.SETUP_EPISODE))
		var copy := environment.instantiate()
		copy.name = "%s%d" % [copy.name, i]
		copies.append(copy)
		if tiles:
			tiles.add(copy)
		else:
			add_child(copy)
			if i == 0:
				step = Footprint.spacing(copy)
			_place(copy, Footprint.cell(i, instances, step))


static func _place(copy: Node, offset: Vector3) -> void:
	if copy is Node2D:
		(copy as Node2D).position += Vector2(offset.x, offset.y)
	elif copy is Node3D:
		(copy as Node3D).position += Vector3(offset.x, 0.0, offset.z)


func _get_configuration_warnings() -> PackedStringArray:
	var warnings := PackedStringArray()
	if environment == null:
		warnings.append("Set the environment: the scene that is to be copied.")
	if is_inside_tree() and not Checks.has_sync(self):
		warnings.append("The scene has no Sync node; add one, or nothing is trained.")
	return warnings

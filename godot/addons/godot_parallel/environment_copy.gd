extends RefCounted
## One copy of the game's environment: it can be put to rest and woken.
##
## A resting copy neither processes nor simulates, but its bodies stay in their world, so that rays
## still see them. Its world itself is stopped only where no other copy lives in it.

const Episode := preload("episode.gd")

var root: Node
var environment := 0
var episodes: Array[Episode] = []
var is_resting := false

var _spaces_2d: Array[RID] = []
var _spaces_3d: Array[RID] = []
var _generators: Array = []  # [object, property] of the game's own RandomNumberGenerators
var _bodies: Array[Node] = []
var _process_mode := Node.PROCESS_MODE_INHERIT
var _spaces_stopped := false


## `owns_world`: nothing else lives in the root's physics worlds.
func _init(copy_root: Node, number: int, owns_world: bool) -> void:
	root = copy_root
	environment = number
	_process_mode = root.process_mode
	for node: Node in root.find_children("*", "", true, false) + [root]:
		adopt(node)
	if owns_world:
		var viewport := root.get_viewport()
		_spaces_2d.append(viewport.find_world_2d().space)
		if viewport.find_world_3d():
			_spaces_3d.append(viewport.find_world_3d().space)


## Prepares a node of this copy: resting must not take bodies out of their world.
func adopt(node: Node) -> void:
	if node is CollisionObject2D or node is CollisionObject3D:
		node.set("disable_mode", CollisionObject2D.DISABLE_MODE_KEEP_ACTIVE)
		_bodies.append(node)
	for property: Dictionary in node.get_property_list():
		var is_variable: bool = property.usage & PROPERTY_USAGE_SCRIPT_VARIABLE
		if is_variable and property.type in [TYPE_OBJECT, TYPE_NIL]:
			_generators.append([node, property.name])


## Whether all agents of this copy have ended their episodes.
func is_over() -> bool:
	for episode: Episode in episodes:
		if not episode.is_over:
			return false
	return true


## Wakes the copy's scripts, not its world, for the one tick in which its game sees `needs_reset`.
func start_polled_reset(base_seed: int, neutral_action: Dictionary) -> void:
	for episode: Episode in episodes:
		if episode.reset_wanted:
			episode.agent.set_action(neutral_action.duplicate())
			episode.seed_streams(base_seed)
	_wake_scripts()


func finish_polled_reset() -> void:
	for episode: Episode in episodes:
		episode.reset_wanted = false
	rest(true)


## Stops the copy's scripts at once, and its world where `stop_world` (not while the physics server
## is telling contacts: it walks through its active worlds then).
func rest(stop_world: bool) -> void:
	if not is_resting:
		is_resting = true
		root.process_mode = Node.PROCESS_MODE_DISABLED
	if stop_world and not _spaces_stopped:
		_set_spaces_active(false)


func wake() -> void:
	_wake_scripts()
	if _spaces_stopped:
		_set_spaces_active(true)


func _wake_scripts() -> void:
	if is_resting:
		is_resting = false
		root.process_mode = _process_mode


func _set_spaces_active(active: bool) -> void:
	_spaces_stopped = not active
	for space: RID in _spaces_2d:
		PhysicsServer2D.space_set_active(space, active)
	for space: RID in _spaces_3d:
		PhysicsServer3D.space_set_active(space, active)


## Tells the physics server what was moved within this tick, so that rays see it. A rigid body's
## move is told outright: the engine loses it when nobody has read the node's global transform since
## the last step.
func flush_transforms() -> void:
	for body: Node in _bodies:
		if not is_instance_valid(body):
			continue
		body.call(&"force_update_transform")
		if body is RigidBody2D:
			var body_2d := body as RigidBody2D
			PhysicsServer2D.body_set_state(
				body_2d.get_rid(), PhysicsServer2D.BODY_STATE_TRANSFORM, body_2d.global_transform
			)
		elif body is RigidBody3D:
			var body_3d := body as RigidBody3D
			PhysicsServer3D.body_set_state(
				body_3d.get_rid(), PhysicsServer3D.BODY_STATE_TRANSFORM, body_3d.global_transform
			)


## Seeds the RandomNumberGenerators that the game keeps in variables of its nodes.
func seed_generators(seed_value: int) -> void:
	var salt := 0
	for entry: Array in _generators:
		salt += 1
		if is_instance_valid(entry[0]) and entry[0].get(entry[1]) is RandomNumberGenerator:
			var generator: RandomNumberGenerator = entry[0].get(entry[1])
			if not episodes.any(func(e: Episode) -> bool: return e.rng == generator):
				generator.seed = Episode.Streams.mix(seed_value + salt)

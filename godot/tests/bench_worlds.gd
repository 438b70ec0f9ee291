extends SceneTree
## What a physics world of its own costs a copy: microseconds a tick for each of 64, over a tick
## without any. Prints one line of JSON.
##
##     godot --headless --fixed-fps 60 --path godot --script res://tests/bench_worlds.gd

const COUNT := 64
const TICKS := 3000
const REPEATS := 3


func _initialize() -> void:
	await process_frame
	var empty := await _tick_us()
	var results := {"a tick of an empty scene": snappedf(empty, 0.01)}
	for name: String in _ways():
		var holder := Node.new()
		root.add_child(holder)
		var spaces: Array[RID] = []
		for i: int in COUNT:
			_ways()[name].call(holder, spaces)
		results[name] = snappedf((await _tick_us() - empty) / COUNT, 0.001)
		holder.free()
		for space: RID in spaces:
			PhysicsServer2D.free_rid(space)
	print(JSON.stringify(results))
	quit(0)


func _tick_us() -> float:
	var best := INF
	for repeat: int in REPEATS:
		await physics_frame
		var started := Time.get_ticks_usec()
		for i: int in TICKS:
			await physics_frame
		best = minf(best, float(Time.get_ticks_usec() - started) / TICKS)
	return best


func _ways() -> Dictionary:
	return {
		"a bare 2D space": _add_space,
		"a viewport without worlds": _add_viewport.bind(false, false, true),
		"a viewport, own 2D world (as the Replicator makes it)":
		_add_viewport.bind(true, false, true),
		"a viewport, own 2D and 3D worlds": _add_viewport.bind(true, true, true),
		"a viewport, own 2D world, drawn": _add_viewport.bind(true, false, false),
		"a viewport, own 2D and 3D worlds, drawn": _add_viewport.bind(true, true, false),
		"a viewport, own 2D world, one moving body": _add_body.bind(true),
		"the same body in the scene's own world": _add_body.bind(false),
	}


static func _add_space(_holder: Node, spaces: Array[RID]) -> void:
	var space := PhysicsServer2D.space_create()
	PhysicsServer2D.space_set_active(space, true)
	spaces.append(space)


static func _add_viewport(
	holder: Node, _spaces: Array[RID], own_2d: bool, own_3d: bool, is_hidden: bool
) -> SubViewport:
	var viewport := SubViewport.new()
	viewport.disable_3d = not own_3d
	viewport.own_world_3d = own_3d
	viewport.render_target_update_mode = (
		SubViewport.UPDATE_DISABLED if is_hidden else SubViewport.UPDATE_ALWAYS
	)
	if not own_2d:
		viewport.world_2d = holder.get_viewport().world_2d
	holder.add_child(viewport)
	return viewport


static func _add_body(holder: Node, spaces: Array[RID], own_world: bool) -> void:
	var body := RigidBody2D.new()
	var shape := CollisionShape2D.new()
	shape.shape = CircleShape2D.new()
	body.add_child(shape)
	body.gravity_scale = 0.0
	body.can_sleep = false
	body.linear_velocity = Vector2(1.0, 0.0)
	body.position.y = holder.get_child_count() * 100.0
	if own_world:
		_add_viewport(holder, spaces, true, false, true).add_child(body)
	else:
		holder.add_child(body)

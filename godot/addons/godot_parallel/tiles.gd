extends RefCounted
## Copies in worlds of their own, shown as tiles in a window; without a window nothing is drawn.

var _parent: Node
var _board: Control
var _columns := 1
var _size: Vector2i
var _is_headless := DisplayServer.get_name() == "headless"


func _init(parent: Node, count: int) -> void:
	_parent = parent
	_size = Vector2i(
		ProjectSettings.get_setting("display/window/size/viewport_width"),
		ProjectSettings.get_setting("display/window/size/viewport_height")
	)
	if not _is_headless:
		_make_board(count)


func _make_board(count: int) -> void:
	_columns = ceili(sqrt(count))  # as many rows, so that tiles keep the window's shape
	_board = Control.new()
	_board.set_anchors_preset(Control.PRESET_FULL_RECT)
	_parent.add_child(_board)


## Puts a copy into a world of its own, and into the tree.
func add(copy: Node) -> void:
	var viewport := SubViewport.new()
	viewport.size = _size
	viewport.own_world_3d = _has_3d(copy)
	viewport.disable_3d = not viewport.own_world_3d
	viewport.gui_disable_input = true
	viewport.handle_input_locally = false
	viewport.render_target_update_mode = (
		SubViewport.UPDATE_DISABLED if _is_headless else SubViewport.UPDATE_ALWAYS
	)
	viewport.add_child(copy)
	if _is_headless:
		_parent.add_child(viewport)
	else:
		_show(viewport)


func _show(viewport: SubViewport) -> void:
	var tile := SubViewportContainer.new()
	tile.stretch = true
	var number := _board.get_child_count()
	var column := number % _columns
	@warning_ignore("integer_division")
	var row := number / _columns
	tile.anchor_left = float(column) / _columns
	tile.anchor_right = float(column + 1) / _columns
	tile.anchor_top = float(row) / _columns
	tile.anchor_bottom = float(row + 1) / _columns
	viewport.size_2d_override = _size
	viewport.size_2d_override_stretch = true
	tile.add_child(viewport)
	_board.add_child(tile)


static func _has_3d(copy: Node) -> bool:
	return copy is Node3D or not copy.find_children("*", "Node3D", true, false).is_empty()

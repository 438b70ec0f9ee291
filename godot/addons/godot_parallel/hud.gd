class_name Hud
extends CanvasLayer
## Shows in a window how fast it runs and how well the agents do. Put it into the training scene.

const INTERVAL := 0.5

var _label := Label.new()
var _sync: Sync
var _steps := 0
var _ticks := 0
var _last_usec := 0


func _ready() -> void:
	if DisplayServer.get_name() == "headless":
		queue_free()
		return
	layer = 100
	_label.position = Vector2(12.0, 8.0)
	_label.add_theme_color_override(&"font_outline_color", Color.BLACK)
	_label.add_theme_constant_override(&"outline_size", 6)
	add_child(_label)


func _process(_delta: float) -> void:
	var now := Time.get_ticks_usec()
	if now - _last_usec < INTERVAL * 1e6:
		return
	if _sync == null:
		_sync = get_tree().get_first_node_in_group(&"SYNC")
	if _sync:
		_show((now - _last_usec) / 1e6)
	_last_usec = now


func _show(seconds: float) -> void:
	_label.text = (
		"%.0f steps/s   %.0f ticks/s   %d instances   %d nodes\n%d episodes, mean return %s"
		% [
			(_sync.steps_total - _steps) / seconds,
			(_sync.ticks_total - _ticks) / seconds,
			_sync.instance_count,
			Performance.get_monitor(Performance.OBJECT_NODE_COUNT),
			_sync.episodes_finished,
			mean_text(_sync.recent_returns),
		]
	)
	_steps = _sync.steps_total
	_ticks = _sync.ticks_total


## Mean of the last returns, or a dash before the first.
static func mean_text(returns: PackedFloat32Array) -> String:
	if returns.is_empty():
		return "-"
	var total := 0.0
	for value: float in returns:
		total += value
	return "%.1f" % (total / returns.size())

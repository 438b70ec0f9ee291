extends SceneTree
## Runs every `test_*.gd` beside it: each method `test_*` of each. Prints "N passed, N failed".
##
##     godot --headless --fixed-fps 60 --path godot --script res://tests/run.gd
##
## A test fails when a check fails, when the engine reports an error, or when it checked nothing.

const FOLDER := "res://tests"

var _passed := 0
var _failed := 0
var _watch := ErrorWatch.new()


func _initialize() -> void:
	OS.add_logger(_watch)
	await process_frame  # from now on the root is in the tree
	for file: String in DirAccess.get_files_at(FOLDER):
		if file.begins_with("test_") and file.ends_with(".gd"):
			await _run_file(FOLDER.path_join(file))
	print("%d passed, %d failed" % [_passed, _failed])
	quit(mini(_failed, 1) if _passed > 0 else 1)


func _run_file(path: String) -> void:
	var script: GDScript = load(path)
	for method: Dictionary in script.get_script_method_list():
		if str(method.name).begins_with("test_"):
			var suite: TestSuite = script.new()
			root.add_child(suite)
			_watch.errors.clear()
			await suite.call(method.name)
			_judge("%s.%s" % [path.get_file().get_basename(), method.name], suite)
			suite.free()


func _judge(name: String, suite: TestSuite) -> void:
	var problems := suite.problems + _watch.errors
	if suite.checks == 0:
		problems.append("checked nothing")
	if problems.is_empty():
		_passed += 1
		return
	_failed += 1
	print("FAILED %s" % name)
	for problem: String in problems:
		print("    " + problem)


## Collects what the engine reports as an error.
class ErrorWatch:
	extends Logger

	var errors := PackedStringArray()

	func _log_error(
		function: String,
		file: String,
		line: int,
		code: String,
		rationale: String,
		_editor_notify: bool,
		error_type: int,
		_backtraces: Array[ScriptBacktrace]
	) -> void:
		if error_type != ERROR_TYPE_WARNING:
			errors.append("%s:%d %s: %s %s" % [file, line, function, code, rationale])

class_name TestSuite
extends Node
## Base of the tests: checks that count themselves.

var checks := 0
var problems := PackedStringArray()


## Checks that two values are equal.
func equal(found: Variant, expected: Variant, what: String = "") -> void:
	checks += 1
	if found != expected:
		problems.append("%s: found %s, expected %s" % [what, found, expected])


## Checks that two numbers are equal up to rounding.
func near(found: float, expected: float, what: String = "") -> void:
	checks += 1
	if not is_equal_approx(found, expected):
		problems.append("%s: found %f, expected %f" % [what, found, expected])


## The golden frames that the Python tests read too.
static func golden() -> Dictionary:
	var path := ProjectSettings.globalize_path("res://").path_join("../tests/golden/frames.json")
	return JSON.parse_string(FileAccess.get_file_as_string(path))

@tool
extends RefCounted
## The addon's project settings: their names, defaults and what the editor shows of them.

## Port that a game started from the editor connects to.
const EDITOR_PORT := "godot_parallel/training/editor_port"
## Seconds that a headless game waits for a trainer before it gives up.
const CONNECT_TIMEOUT := "godot_parallel/training/connect_timeout"

const DEFAULTS: Dictionary[String, Variant] = {EDITOR_PORT: 11008, CONNECT_TIMEOUT: 60.0}


## Adds the settings to the project, where they are not set yet.
static func register() -> void:
	for key: String in DEFAULTS:
		if not ProjectSettings.has_setting(key):
			ProjectSettings.set_setting(key, DEFAULTS[key])
		ProjectSettings.set_initial_value(key, DEFAULTS[key])


## The value of a setting, also where the plugin was never activated.
static func value(key: String) -> Variant:
	return ProjectSettings.get_setting(key, DEFAULTS[key])

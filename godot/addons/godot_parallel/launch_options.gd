extends RefCounted
## What the trainer asked for on the command line.
##
## Own options stand behind "--" ("--instances=8"). The options of Godot RL Agents ("--port=",
## "--env_seed=", "--action_repeat=", "--speedup=") are read from before it as well, so that its
## Python client can start the game. The token comes by environment: command lines are public.

const SETTINGS := preload("settings.gd")
const TOKEN_VARIABLE := "GODOT_PARALLEL_TOKEN"

var port := 11008
var speed_up := 0.0  ## 0: as the Sync node says.
var action_repeat := 0  ## 0: as the Sync node says.
var instances := 0  ## 0: as the Replicator says.
var isolation := ""  ## "world", "grid", or "": as the Replicator says.
var first_environment := 0  ## Number of this process's first environment among all.
var base_seed := 1
var connect_timeout := 60.0
## Microseconds to look for a request before sleeping on it: waking up costs tens of them.
var spin_us := 0
var self_play := 0.0  ## Seconds to step without a trainer, for measuring.
var lockstep := false  ## The engine was started with --fixed-fps by our trainer.
var token := ""


static func read() -> RefCounted:
	var options: RefCounted = new()
	options._apply(_key_values(OS.get_cmdline_args()), _key_values(OS.get_cmdline_user_args()))
	return options


## "--key=value" entries as a dictionary; "-" and "_" in keys are the same.
static func _key_values(arguments: PackedStringArray) -> Dictionary[String, String]:
	var result: Dictionary[String, String] = {}
	for argument: String in arguments:
		var parts := argument.split("=", true, 1)
		if argument.begins_with("--") and parts.size() == 2:
			result[parts[0].trim_prefix("--").replace("-", "_")] = parts[1]
	return result


func _apply(engine: Dictionary[String, String], own: Dictionary[String, String]) -> void:
	var all := engine.merged(own, true)
	port = int(all.get("port", str(SETTINGS.value(SETTINGS.EDITOR_PORT))))
	speed_up = float(all.get("speedup", "0"))
	action_repeat = int(all.get("action_repeat", "0"))
	instances = int(all.get("instances", "0"))
	isolation = all.get("isolation", "")
	first_environment = int(own.get("environment", "0"))
	base_seed = int(own.get("seed", engine.get("env_seed", "1")))
	var patience := str(SETTINGS.value(SETTINGS.CONNECT_TIMEOUT))
	connect_timeout = float(own.get("connect_timeout", patience))
	spin_us = int(own.get("spin_us", "0"))
	self_play = float(own.get("self_play", "0"))
	lockstep = own.has("environment")
	token = OS.get_environment(TOKEN_VARIABLE)

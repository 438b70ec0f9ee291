extends RefCounted
## One agent's running episode: when it began, how it ended, what was last seen.
##
## The agent's `done`, `truncated`, `n_steps` and `needs_reset` are views of this.

## How an episode ended.
enum End { NONE, TERMINATED, TRUNCATED }

const Streams := preload("streams.gd")

var agent: Node
var index := 0  ## Row of this agent in its process.
var number_in_copy := 0  ## 0 for the first agent of an environment.
var environment := 0
var number := 0  ## Episodes of this agent so far.
var rng := RandomNumberGenerator.new()
var end := End.NONE
var is_over := false
var reset_wanted := false
var was_reset := false  ## reset() was called since the end.
var final_obs: Dictionary = {}
var final_reward := 0.0
var final_info: Dictionary = {}
var copy: RefCounted  ## The environment copy that the agent lives in.
var has_info := false  ## The game overrides get_info().
var return_so_far := 0.0

var _sync: Node
var _first_tick := 0
var _ticks_without_sync := 0


func _init(owner: Node) -> void:
	agent = owner
	rng.seed = randi()  # from the seeded global stream, for draws made in _ready


## Connects the episode to the loop that counts its ticks.
func join(sync: Node, row: int) -> void:
	_sync = sync
	index = row
	_first_tick = sync.ticks_total
	has_info = overrides(agent, &"get_info")
	if not overrides(agent, &"_physics_process"):
		agent.set_physics_process(false)


## Ticks since the episode began; 0 while the agent rests.
func ticks() -> int:
	return maxi(0, _sync.ticks_total - _first_tick) if _sync else _ticks_without_sync


## Sets the count back. Counting up is ignored: some games count for themselves as well.
func set_ticks(value: int) -> void:
	if _sync == null:
		_ticks_without_sync = value
	elif is_over:
		was_reset = was_reset or value == 0
	elif value < ticks() or value == 0:
		_first_tick = _sync.ticks_total - value
		was_reset = was_reset or value == 0
		_sync.time_limit_moved(self)


## Tick at which the time limit ends the episode.
func limit_tick() -> int:
	return _first_tick + agent.reset_after if agent.reset_after > 0 and not is_over else 1 << 62


## The game says that the episode is over, or takes it back.
func set_over(value: bool, how: End) -> void:
	if value and not is_over:
		is_over = true
		end = how
		was_reset = false
		if _sync:
			_sync.episode_ended(self)
	elif not value:
		is_over = false
		end = End.NONE


func want_reset(value: bool) -> void:
	reset_wanted = value
	was_reset = was_reset or not value


func has_reset() -> void:
	agent.n_steps = 0
	agent.needs_reset = false


## The ended episode has been looked at for the last time; the agent rests now.
func stop_counting() -> void:
	_first_tick = 1 << 62


## Asks the game for a new episode. Where it is not connected to the signal, and looks at
## `needs_reset` instead, that stays set.
func request_reset(base: int) -> void:
	if agent.get_signal_connection_list(&"reset_requested").is_empty():
		return
	seed_streams(base)
	agent.reset_requested.emit()
	reset_wanted = false


## A new episode by the trainer's wish; the running one is forgotten.
func restart(episode_number: int, base: int) -> void:
	number = episode_number
	is_over = true
	stop_counting()
	end = End.NONE
	reset_wanted = true
	final_reward = 0.0
	seed_streams(base)
	request_reset(base)


## Seeds this episode's own stream, and the engine's for draws made while the game resets.
func seed_streams(base: int) -> void:
	var seed_value := Streams.episode_seed(base, environment, number, number_in_copy)
	rng.seed = seed_value
	seed(seed_value)
	if copy and number_in_copy == 0:
		copy.seed_generators(seed_value)


## The next step is this episode's first.
func begin() -> void:
	is_over = false
	end = End.NONE
	was_reset = false
	final_obs = {}
	final_info = {}
	return_so_far = 0.0
	_first_tick = _sync.ticks_total
	agent.zero_reward()


## Whether the game's script has a method of its own, not only the addon's.
static func overrides(node: Node, method: StringName) -> bool:
	var script: Script = node.get_script()
	return _occurrences(script, method) > _occurrences(_addon_base(script), method)


# The list of a script's methods holds the inherited ones too, once for every script that has it.
static func _occurrences(script: Script, method: StringName) -> int:
	var count := 0
	for entry: Dictionary in script.get_script_method_list() if script else []:
		count += int(entry.name == method)
	return count


static func _addon_base(script: Script) -> Script:
	var own_folder: String = (Streams as Script).resource_path.get_base_dir()
	while script and script.resource_path.get_base_dir() != own_folder:
		script = script.get_base_script()
	return script


## Observation sizes from an observation.
static func space_of(obs: Dictionary) -> Dictionary:
	var result := {}
	for key: String in obs:
		result[key] = {"size": [len(obs[key])], "space": "box"}
	return result


## Reports a method that the game has to implement.
static func not_implemented(node: Node, method: String, fallback: Variant) -> Variant:
	push_error("%s must implement %s()" % [node.get_path(), method])
	return fallback

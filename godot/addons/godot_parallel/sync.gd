@tool
class_name Sync
extends Node
## The step loop: one action, some ticks, one observation, in lockstep with the trainer.
##
## Runs first in every tick, when the tick before is complete: solver, transforms and signals.
## Put one into the training scene; it finds the agents by itself.

## Who steers the agents.
enum ControlModes {
	HUMAN,  ## A person: nothing is trained.
	TRAINING,  ## The trainer, if one listens; else a person.
	ONNX_INFERENCE,  ## Reserved for a trained policy.
}

const LaunchOptions := preload("launch_options.gd")
const Episode := preload("episode.gd")
const EnvironmentCopy := preload("environment_copy.gd")
const Codec := preload("codec.gd")
const Roster := preload("roster.gd")
const Snapshot := preload("snapshot.gd")
const Trainer := preload("trainer.gd")
const SelfPlay := preload("self_play.gd")
const Pace := preload("pace.gd")
const TickEnd := preload("tick_end.gd")
const Checks := preload("checks.gd")
const FIRST := -1000000000
const LOOK_INTERVAL := 60  # ticks

@export var control_mode: ControlModes = ControlModes.TRAINING
## Ticks that an action is held; `--action_repeat` on the command line wins.
@export_range(1, 10, 1, "or_greater") var action_repeat := 8
## Pace of a game that somebody watches; without a window it runs as fast as it can.
@export_range(0, 10, 0.1, "or_greater") var speed_up := 1.0

## Ticks since the start, the running one not counted.
var ticks_total := 0
## Agent steps since the start.
var steps_total := 0
var instance_count := 0
var episodes_finished := 0
## Returns of the last 100 episodes.
var recent_returns := PackedFloat32Array()
var base_seed := 1
var roster: Roster
var options: LaunchOptions

var _trainer: RefCounted  # Trainer or SelfPlay
var _tick_in_step := 0
var _next_limit := 1 << 62
var _ended: Array[Episode] = []  # since the last tick
var _over: Array[Episode] = []  # since the last step
var _awaiting: Array[EnvironmentCopy] = []
var _others_rest := false
var _in_callbacks := false
var _has_started := false
var _is_headless := DisplayServer.get_name() == "headless"


# Before any _ready of the scene, so that draws made there are the same in the next run.
static func _static_init() -> void:
	if not Engine.is_editor_hint():
		var launch: LaunchOptions = LaunchOptions.read()
		seed(
			Episode.Streams.episode_seed(
				launch.base_seed, launch.first_environment, Episode.Streams.SETUP_EPISODE
			)
		)


func _ready() -> void:
	if Engine.is_editor_hint():
		set_physics_process(false)
		return
	add_to_group("SYNC")
	process_physics_priority = FIRST
	process_mode = Node.PROCESS_MODE_ALWAYS
	options = LaunchOptions.read()
	base_seed = options.base_seed
	if options.action_repeat > 0:
		action_repeat = options.action_repeat
	if options.speed_up > 0.0:
		speed_up = options.speed_up
	add_child(TickEnd.new(func() -> void: _in_callbacks = false))


func _physics_process(_delta: float) -> void:
	if not _has_started:
		_start()
		return
	ticks_total += 1
	if not _ended.is_empty() or ticks_total >= _next_limit:
		_settle_ends()
	if _trainer == null:
		_play_on()
		_look_for_trainer()
	elif _tick_in_step >= action_repeat:
		_end_step()
	_tick_in_step += 1
	_in_callbacks = true


func _exit_tree() -> void:
	if roster:
		roster.dissolve()


# In the first tick everything in the scene is ready, and nothing has moved.
func _start() -> void:
	_has_started = true
	roster = Roster.new(self, _is_trained, options.first_environment)
	instance_count = roster.copies.size()
	for episode: Episode in roster.episodes + roster.bystanders:
		time_limit_moved(episode)
	if control_mode == ControlModes.TRAINING:
		_trainer = SelfPlay.new(self) if options.self_play > 0.0 else Trainer.find(self)
	_change_hands()
	_in_callbacks = true
	_tick_in_step += 1


# The trainer, or a person, takes over.
func _change_hands() -> void:
	Pace.apply(speed_up if _trainer else 1.0, options, _trainer != null)
	for agent: Node in roster.agents:
		agent.set_heuristic("model" if _trainer else "human")
	if _trainer and _trainer.greet():
		_serve()


# A game in a window may be started before its trainer.
func _look_for_trainer() -> void:
	if control_mode == ControlModes.TRAINING and ticks_total % LOOK_INTERVAL == 0:
		_trainer = Trainer.find(self)
		if _trainer:
			_change_hands()


func _is_trained(agent: Node) -> bool:
	if control_mode != ControlModes.TRAINING:
		return true  # nobody is trained, but episodes end and begin all the same
	var mode: int = agent.control_mode
	return mode == 2 or (mode == 0 and control_mode == ControlModes.TRAINING)


## An agent says that its episode is over: what it sees now is its last observation.
func episode_ended(episode: Episode) -> void:
	_ended.append(episode)
	if episode.index != Roster.BYSTANDER:
		_over.append(episode)
	if _trainer and episode.index != Roster.BYSTANDER:
		episode.final_obs = episode.agent.get_obs().duplicate(true)
		if episode.has_info:
			episode.final_info = episode.agent.get_info()
		if episode.copy and episode.copy.is_over():
			episode.copy.rest(_in_callbacks)
	episode.stop_counting()
	episode.number += 1
	episode.seed_streams(base_seed)


## An agent's time limit has moved.
func time_limit_moved(episode: Episode) -> void:
	_next_limit = mini(_next_limit, episode.limit_tick())


# Everything of the tick before is known now.
func _settle_ends() -> void:
	_in_callbacks = false
	if ticks_total >= _next_limit:
		_apply_time_limits()
	for episode: Episode in _ended:
		episode.final_reward = episode.agent.get_reward()
		if episode.copy and episode.copy.is_resting:
			episode.copy.rest(true)
		if not episode.was_reset:
			episode.request_reset(base_seed)
		if episode.index == Roster.BYSTANDER:
			episode.begin()
			time_limit_moved(episode)
	_ended.clear()


func _apply_time_limits() -> void:
	_next_limit = 1 << 62
	for episode: Episode in roster.episodes + roster.bystanders:
		if not episode.is_over:
			if ticks_total >= episode.limit_tick():
				episode.agent.truncated = true
				episode.reset_wanted = true
			else:
				_next_limit = mini(_next_limit, episode.limit_tick())


func _end_step() -> void:
	if not _run_polled_resets():
		_serve()


# Answers the trainer, and does what it asks until ticks have to pass.
func _serve() -> void:
	_tick_in_step = action_repeat
	while true:
		match _trainer.exchange():
			Codec.Kind.STEP:
				_tick_in_step = 0
				return
			Codec.Kind.RESET:
				_reset_all(_trainer.reset_request())
				if _run_polled_resets():
					return
			_:
				return


## Begins the new episodes, after the trainer has answered.
func begin_step() -> void:
	for episode: Episode in _over:
		episode.begin()
		_next_limit = mini(_next_limit, episode.limit_tick())
		if episode.copy:
			episode.copy.wake()
	_over.clear()


# Begins a new episode in every copy. Without a request (the old protocol) streams go on.
func _reset_all(request: Codec.ResetRequest) -> void:
	_ended.clear()
	_over = roster.episodes.duplicate()
	_next_limit = 1 << 62
	for i: int in roster.copies.size():
		var copy := roster.copies[i]
		if request:
			base_seed = request.base_seed
			copy.environment = request.first_environment + i
		for episode: Episode in copy.episodes:
			episode.environment = copy.environment
			episode.restart(request.episode_of(i) if request else episode.number + 1, base_seed)
		copy.rest(true)


# Games that look at `needs_reset` in their own tick get one for it, each copy alone: its draws do
# not depend on the others. True while such a tick is due.
func _run_polled_resets() -> bool:
	if _awaiting.is_empty():
		for episode: Episode in _over:
			if episode.reset_wanted and episode.copy not in _awaiting:
				_awaiting.append(episode.copy)
	else:
		var finished: EnvironmentCopy = _awaiting.pop_front()
		finished.finish_polled_reset()
	if _awaiting.is_empty():
		_wake_running()
		return false
	for copy: EnvironmentCopy in roster.copies:
		copy.rest(true)
	_awaiting[0].start_polled_reset(base_seed, roster.neutral_action())
	_others_rest = true
	return true


# What was only stopped for the others' resets goes on.
func _wake_running() -> void:
	if _others_rest:
		_others_rest = false
		for copy: EnvironmentCopy in roster.copies:
			if not copy.is_over():
				copy.wake()


# Without a trainer new episodes begin at once.
func _play_on() -> void:
	for episode: Episode in _over:
		_count_episode(episode.agent.get_reward())
		episode.begin()
		_next_limit = mini(_next_limit, episode.limit_tick())
	_over.clear()


## Keeps count for the display.
func count(snapshot: Snapshot) -> void:
	var episodes := roster.episodes
	steps_total += episodes.size()
	if _is_headless:
		return
	for i: int in episodes.size():
		episodes[i].return_so_far += snapshot.reward[i]
	for row: int in snapshot.final_rows:
		_count_episode(episodes[row].return_so_far)


func _count_episode(episode_return: float) -> void:
	episodes_finished += 1
	recent_returns.append(episode_return)
	if recent_returns.size() > 100:
		recent_returns = recent_returns.slice(-100)


func _get_configuration_warnings() -> PackedStringArray:
	return Checks.scene_warnings(self)

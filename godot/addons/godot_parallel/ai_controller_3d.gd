class_name AIController3D
extends Node3D
## The agent's side of a 3D game: what it observes, what it does, what it is rewarded for.
##
## Extend this script, and implement [method get_obs], [method get_reward],
## [method get_action_space] and [method set_action]. Call [method init] with the node it controls.

## A new episode must begin now. Connect the function that puts the game back to its start and calls
## [method reset]. Games that look at [member needs_reset] instead get one tick for it.
signal reset_requested

enum ControlModes {
	INHERIT_FROM_SYNC,  ## As the Sync node says.
	HUMAN,  ## Steered by a person.
	TRAINING,  ## Steered by the trainer.
	ONNX_INFERENCE,  ## Reserved: steered by a trained policy.
	RECORD_EXPERT_DEMOS,  ## Reserved.
}

const Episode := preload("episode.gd")

@export var control_mode: ControlModes = ControlModes.INHERIT_FROM_SYNC
## Reserved for inference.
@export var onnx_model_path := ""
## Time limit of an episode in ticks; the episode is then truncated. 0: none.
@export var reset_after := 1000
@export_group("Multi-policy mode options")
## Agents with equal names share one policy.
@export var policy_name := "shared_policy"

## Who acts: "human" or "model".
var heuristic := "human"
## Set to true when the episode is over: before anything is moved for the next one.
var done: bool:
	get:
		return episode.is_over
	set(value):
		episode.set_over(value, Episode.End.TERMINATED)
## Set to true when the episode is cut short without having come to its end.
var truncated: bool:
	get:
		return episode.end == Episode.End.TRUNCATED
	set(value):
		episode.set_over(value, Episode.End.TRUNCATED)
## Reward since the last step.
var reward := 0.0
## Ticks since the episode began; counted for you, only setting it back has an effect.
var n_steps: int:
	get:
		return episode.ticks()
	set(value):
		episode.set_ticks(value)
## The game must begin a new episode and call [method reset].
var needs_reset: bool:
	get:
		return episode.reset_wanted
	set(value):
		episode.want_reset(value)
## Random numbers of this episode: seeded anew for every (seed, environment, episode).
var rng: RandomNumberGenerator:
	get:
		return episode.rng
## What the addon keeps about the running episode.
var episode := Episode.new(self)

var _player: Node3D


# Not in _ready: a game's own _ready need not call ours.
func _notification(what: int) -> void:
	if what == NOTIFICATION_ENTER_TREE:
		add_to_group("AGENT")


# Here for games that call super. Sync counts the ticks, and switches this off where it can.
func _ready() -> void:
	pass


func _physics_process(_delta: float) -> void:
	pass


## Tells which node this agent controls.
func init(player: Node3D) -> void:
	_player = player


#region To be implemented by the game
## What the agent sees: {"obs": PackedFloat32Array or Array of numbers}; several keys are fine.
func get_obs() -> Dictionary:
	return Episode.not_implemented(self, "get_obs", {"obs": []})


## Reward since the last step: usually [member reward].
func get_reward() -> float:
	return reward


## {"name": {"size": n, "action_type": "continuous" or "discrete"}, ...}
func get_action_space() -> Dictionary:
	return Episode.not_implemented(self, "get_action_space", {})


## Takes the action of the next step: {"name": PackedFloat32Array (-1..1), or int}.
func set_action(_action: Variant) -> void:
	Episode.not_implemented(self, "set_action", null)


#endregion


## More about the episode, such as {"is_success": true}; an empty dictionary costs nothing.
func get_info() -> Dictionary:
	return {}


## The action that a person or script takes now; reserved for recording.
func get_action() -> Array:
	return []


## Sizes of the observations; override it where [method get_obs] can't be asked at the start.
func get_obs_space() -> Variant:
	return Episode.space_of(get_obs())


## To be called when the game was put back to its start.
func reset() -> void:
	episode.has_reset()


## Calls [method reset] if the episode is over.
func reset_if_done() -> void:
	if done:
		reset()


## Sets who acts.
func set_heuristic(h: Variant) -> void:
	heuristic = h


## Whether the episode is over.
func get_done() -> Variant:
	return done


## Takes the end of the episode back.
func set_done_false() -> void:
	done = false


## Forgets the reward so far.
func zero_reward() -> void:
	reward = 0.0

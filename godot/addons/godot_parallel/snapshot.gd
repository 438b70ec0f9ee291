extends RefCounted
## What a step has brought, for all agents: taken once a step, read by the dialect in use.

const Episode := preload("episode.gd")

var obs: Array[Dictionary] = []
var reward := PackedFloat32Array()
var terminated := PackedByteArray()
var truncated := PackedByteArray()
## Rows whose episodes ended, and what they saw last.
var final_rows := PackedInt32Array()
var final_obs: Array[Dictionary] = []
## {"row": info}, of ended episodes and of games that tell something every step.
var infos: Dictionary = {}


func _init(episodes: Array[Episode]) -> void:
	var count := episodes.size()
	obs.resize(count)
	reward.resize(count)
	terminated.resize(count)
	truncated.resize(count)
	for i: int in count:
		var episode := episodes[i]
		if episode.is_over:
			_take_ended(i, episode)
			continue
		var agent := episode.agent
		obs[i] = agent.get_obs()
		reward[i] = agent.get_reward()
		agent.zero_reward()
		if episode.has_info:
			_tell(i, agent.get_info())


func _take_ended(i: int, episode: Episode) -> void:
	episode.copy.flush_transforms()
	obs[i] = episode.agent.get_obs()
	if episode.end == Episode.End.NONE:  # the trainer's reset, not an end
		return
	reward[i] = episode.final_reward
	terminated[i] = int(episode.end == Episode.End.TERMINATED)
	truncated[i] = int(episode.end == Episode.End.TRUNCATED)
	final_rows.append(i)
	final_obs.append(episode.final_obs)
	_tell(i, episode.final_info)


func _tell(i: int, info: Dictionary) -> void:
	if not info.is_empty():
		infos[str(i)] = info

extends RefCounted
## Steps the scene with random actions and nobody at the other end (`--self_play=SECONDS`): the
## ceiling that a trainer can be measured against. Prints one line of JSON and quits.

const Codec := preload("codec.gd")
const Snapshot := preload("snapshot.gd")
const WARM_UP := 0.25  # share of the time that does not count

var _sync: Node
var _was_reset := false
var _started := 0
var _counts_from := 0
var _ends_at := 0
var _steps := 0
var _rng := RandomNumberGenerator.new()


func _init(sync: Node) -> void:
	_sync = sync
	_rng.seed = 1
	_started = Time.get_ticks_usec()
	_counts_from = _started + int(sync.options.self_play * WARM_UP * 1e6)
	_ends_at = _started + int(sync.options.self_play * 1e6)


## Nobody to shake hands with.
func greet() -> bool:
	return true


## The next step with random actions, after one look at everything.
func exchange() -> Codec.Kind:
	if not _was_reset:
		_was_reset = true
		return Codec.Kind.RESET
	var snapshot := Snapshot.new(_sync.roster.episodes)
	_sync.count(snapshot)
	var now := Time.get_ticks_usec()
	if now > _ends_at:
		_report(now)
		return Codec.Kind.CLOSE
	_steps += int(now > _counts_from)
	_act()
	return Codec.Kind.STEP


## No reset has arguments here.
func reset_request() -> Codec.ResetRequest:
	return null


func _act() -> void:
	_sync.begin_step()
	var action: Dictionary = _sync.roster.neutral_action()
	for agent: Node in _sync.roster.agents:
		for key: String in action:
			if action[key] is PackedFloat32Array:
				for i: int in action[key].size():
					action[key][i] = _rng.randf_range(-1.0, 1.0)
		agent.set_action(action)


func _report(now: int) -> void:
	var rate := _steps / ((now - _counts_from) / 1e6)
	print(
		JSON.stringify(
			{"vector_steps_per_s": rate, "steps_per_s": rate * _sync.roster.agents.size()}
		)
	)
	_sync.get_tree().quit(0)

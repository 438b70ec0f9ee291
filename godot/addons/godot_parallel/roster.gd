extends RefCounted
## Who is in the scene: the agents that are trained, and the copies that they live in.

const Episode := preload("episode.gd")
const EnvironmentCopy := preload("environment_copy.gd")
const BYSTANDER := -1

var agents: Array[Node] = []
var episodes: Array[Episode] = []
var copies: Array[EnvironmentCopy] = []
var isolation := "scene"  ## "world", "grid", or "scene": copies were made by hand.
var notes := PackedStringArray()
## Agents that somebody else steers, in a scene that is trained.
var bystanders: Array[Episode] = []
var has_left := ""  ## Path of an agent that left the tree.

var _tree: SceneTree
var _known_agents := 0


## Collects the agents that `wanted` (an agent's control mode) accepts.
func _init(sync: Node, wanted: Callable, first_environment: int) -> void:
	_tree = sync.get_tree()
	_known_agents = _tree.get_node_count_in_group(&"AGENT")
	for agent: Node in _tree.get_nodes_in_group(&"AGENT"):
		if wanted.call(agent):
			agents.append(agent)
		else:
			bystanders.append(agent.episode)
	var replicator: Node = _tree.get_first_node_in_group(&"REPLICATOR")
	if replicator:
		_take_replicated(replicator, first_environment)
	else:
		_take_hand_made(sync, first_environment)
	for row: int in agents.size():
		agents[row].episode.join(sync, row)
		agents[row].tree_exiting.connect(_on_agent_left.bind(agents[row]))
	for episode: Episode in bystanders:
		episode.join(sync, BYSTANDER)
	_tree.node_added.connect(_on_node_added)
	_note_what_rests()


func _take_replicated(replicator: Node, first_environment: int) -> void:
	isolation = "world" if replicator.isolation == replicator.Isolation.WORLD else "grid"
	for i: int in replicator.copies.size():
		_add_copy(replicator.copies[i], first_environment + i, isolation == "world")


# The ancestor beside the Sync node is an agent's environment. If there is only one, the whole
# scene is the environment.
func _take_hand_made(sync: Node, first_environment: int) -> void:
	var roots: Array[Node] = []
	for agent: Node in agents:
		var root := _child_towards(sync.get_parent(), agent)
		if root not in roots:
			roots.append(root)
	if roots.size() == 1:
		sync.process_mode = Node.PROCESS_MODE_ALWAYS
		_add_copy(sync.get_parent(), first_environment, true)
		return
	for i: int in roots.size():
		_add_copy(roots[i], first_environment + i, false)


static func _child_towards(parent: Node, descendant: Node) -> Node:
	var node := descendant
	while node.get_parent() and node.get_parent() != parent:
		node = node.get_parent()
	return node


func _add_copy(root: Node, environment: int, owns_world: bool) -> void:
	var copy := EnvironmentCopy.new(root, environment, owns_world)
	for agent: Node in agents:
		if root.is_ancestor_of(agent) or root == agent:
			var episode: Episode = agent.episode
			episode.copy = copy
			episode.environment = environment
			episode.number_in_copy = copy.episodes.size()
			copy.episodes.append(episode)
			episodes.append(episode)
	copies.append(copy)


## Lets go of everything: copies and episodes hold each other.
func dissolve() -> void:
	for copy: EnvironmentCopy in copies:
		copy.episodes.clear()
	for episode: Episode in episodes:
		episode.copy = null
	copies.clear()


## What does not fit together in this scene, in words; empty if all is well.
func fault() -> String:
	if agents.is_empty():
		return (
			"the scene has no agents to train: expected at least one AIController2D or "
			+ "AIController3D whose control mode is TRAINING or inherited"
		)
	var first := [agents[0].get_obs_space(), agents[0].get_action_space()]
	for agent: Node in agents:
		var own := [agent.get_obs_space(), agent.get_action_space()]
		if own != first:
			return (
				"agents disagree in spaces: %s has %s, %s has %s"
				% [agents[0].get_path(), first, agent.get_path(), own]
			)
	return ""


## An action that does nothing: zeros.
func neutral_action() -> Dictionary:
	var result := {}
	var space: Dictionary = agents[0].get_action_space()
	for key: String in space:
		if space[key].action_type == "discrete":
			result[key] = 0
		else:
			var zeros := PackedFloat32Array()
			zeros.resize(int(space[key].size))
			result[key] = zeros
	return result


## What has changed among the agents since the start, in words; empty if nothing has.
func change() -> String:
	if has_left:
		return (
			"agent %s left the scene during training; expected %d agents, found fewer"
			% [has_left, agents.size()]
		)
	if _tree.get_node_count_in_group(&"AGENT") == _known_agents:
		return ""
	for agent: Node in _tree.get_nodes_in_group(&"AGENT"):
		if agent not in agents and agent.episode not in bystanders:
			return (
				"agent %s was added during training; expected %d agents, found more"
				% [agent.get_path(), agents.size()]
			)
	return ""


func _note_what_rests() -> void:
	if isolation != "world" and copies.size() > 1 and copies.any(_has_rigid_bodies):
		(
			notes
			. append(
				(
					"copies share a physics world, so rigid bodies of a copy whose episode has ended move on "
					+ "until the step is over; a Replicator with isolation 'world' has no such effect"
				)
			)
		)
	if copies.any(func(copy: EnvironmentCopy) -> bool: return copy.episodes.size() > 1):
		notes.append(
			"a copy with several agents rests only when the episodes of all of them have ended"
		)


static func _has_rigid_bodies(copy: EnvironmentCopy) -> bool:
	var nodes := copy.root.find_children("*", "", true, false)
	return nodes.any(func(n: Node) -> bool: return n is RigidBody2D or n is RigidBody3D)


func _on_agent_left(agent: Node) -> void:
	has_left = str(agent.get_path())


func _on_node_added(node: Node) -> void:
	if node is CollisionObject2D or node is CollisionObject3D:
		for copy: EnvironmentCopy in copies:
			if copy.root.is_ancestor_of(node):
				copy.adopt(node)

@tool
extends RefCounted
## What is commonly set up wrongly in a training scene, in words, for the editor's warning signs.


## Warnings for a Sync node in the scene that is being edited.
static func scene_warnings(sync: Node) -> PackedStringArray:
	var warnings := PackedStringArray()
	if not sync.is_inside_tree():
		return warnings
	var scene := sync.owner if sync.owner else sync
	var nodes := scene.find_children("*", "", true, false)
	var syncs := nodes.filter(func(n: Node) -> bool: return n is Sync)
	if syncs.size() > 1:
		warnings.append("The scene has %d Sync nodes; it needs exactly one." % syncs.size())
	if not nodes.any(_brings_agents):
		warnings.append("The scene has no agents: add an AIController2D or 3D, or a Replicator.")
	var overlapping := overlapping_copies(sync)
	if overlapping:
		warnings.append("These copies stand on one spot; move them apart: %s." % overlapping)
	return warnings


## Whether the scene of a node has a Sync node.
static func has_sync(node: Node) -> bool:
	var scene := node.owner if node.owner else node
	var nodes := scene.find_children("*", "", true, false) + [scene]
	return nodes.any(func(n: Node) -> bool: return n is Sync)


static func _brings_agents(node: Node) -> bool:
	return node is AIController2D or node is AIController3D or node is Replicator


## Names of instances of one scene beside the Sync node that stand on one spot.
static func overlapping_copies(sync: Node) -> String:
	var seen: Dictionary[String, String] = {}
	for node: Node in sync.get_parent().get_children() if sync.get_parent() else []:
		if node.scene_file_path and (node is Node2D or node is Node3D):
			var place := "%s at %s" % [node.scene_file_path, node.get(&"position")]
			if place in seen:
				return "%s and %s" % [seen[place], node.name]
			seen[place] = node.name
	return ""

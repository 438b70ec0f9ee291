@tool
extends EditorPlugin
## Makes the addon's settings known to the editor.
##
## The nodes themselves (Sync, Replicator, AIController2D, ...) are global classes, so the editor
## lists them in "Create New Node" as soon as the addon's files are in the project.

const SETTINGS := preload("settings.gd")


func _enter_tree() -> void:
	SETTINGS.register()

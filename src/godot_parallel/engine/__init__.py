"""One Godot process: find it, start it, talk to it."""

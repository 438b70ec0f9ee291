"""Many Godot processes as one vectorised environment."""

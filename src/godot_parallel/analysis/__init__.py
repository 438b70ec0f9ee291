"""Tables and pictures from run folders: no engine, no torch."""

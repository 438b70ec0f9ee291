"""How fast it is, and why not faster."""

"""The stages of a frame's way, one file each. A stage takes and returns the types of mien."""

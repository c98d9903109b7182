"""A rehearsal: a small job of our own loses a node, and the real swap brings it back."""

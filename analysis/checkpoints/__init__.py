"""Checkpoints: what they cost, who wrote them, how fast, how often, and whom they disturb."""

"""What slurmd runs as root before a job: never harms it, never drains a node for our own fault."""

"""What slurmd runs as root before a job: never harms the job, never drains a node for a fault of ours."""

"""Watch a job or a process tree that runs already: ``slurm-io attach``."""

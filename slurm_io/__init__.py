"""slurm_io: which share of a training job's GPU time storage cost, why, and what to change."""

__version__ = "0.1.0"

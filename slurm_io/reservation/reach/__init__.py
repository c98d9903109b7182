"""Running a command of ours on nodes, by Slurm and nothing else."""

from slurm_io.reservation.reach.local import LocalReach
from slurm_io.reservation.reach.slurm_reach import SlurmReach

__all__ = ["LocalReach", "SlurmReach"]

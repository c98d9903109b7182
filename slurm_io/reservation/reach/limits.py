"""Bounds of what one question to the nodes may cost."""

from __future__ import annotations

from typing import Literal

from slurm_io.records import dataclass
from slurm_io.slurm.listpids import SLURM_FOLDERS

Way = Literal["auto", "direct", "jobs"]


@dataclass(frozen=True)
class ReachLimits:
    """`way`: see :mod:`slurm_io.reservation.reach.ways`. The bytes are of one node's answer.

    `immediate_s`: how long Slurm may take to give nodes, at most. `sruns`: run at once.
    `nodes_per_srun`: Slurm's launch tree is quick, one srun's sockets are not endless.
    """

    way: Way = "auto"
    stdout_bytes: int = 4 * 1024 * 1024
    stderr_bytes: int = 64 * 1024
    stdin_bytes: int = 1024 * 1024
    immediate_s: int = 15
    sruns: int = 16
    nodes_per_srun: int = 512
    after_kill_s: float = 5.0
    folders: tuple[str, ...] = SLURM_FOLDERS

    @property
    def frame_chars(self) -> int:
        """Most that a node may send for one answer: JSON writes a byte in at most 6 characters."""
        return 6 * (self.stdout_bytes + self.stderr_bytes) + 65536

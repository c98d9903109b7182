"""What an audit is asked."""

from __future__ import annotations

from dataclasses import dataclass, field

from slurm_io.filesystems.layout.osts import OstSet
from slurm_io.filesystems.layout.policy import Thresholds, Use


@dataclass(frozen=True)
class Question:
    """`root`: an absolute path without links. `readers`: nodes that read the tree at once. `keep`:
    how many of the worst files of each kind to name. `sample_every` N looks at the layout of every
    Nth file only. `deadline_s`: end after this time (CLOCK_MONOTONIC)."""

    root: str
    readers: int
    thresholds: Thresholds = field(default_factory=Thresholds)
    osts: OstSet | None = None
    keep: int = 20
    sample_every: int = 1
    processes: int = 1
    deadline_s: float | None = None

    @property
    def use(self) -> Use:
        """How the files are read, for the policy."""
        active = self.osts.count if self.osts is not None else None
        return Use(self.readers, active, self.thresholds)

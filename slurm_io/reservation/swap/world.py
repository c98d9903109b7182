"""What a swap looks at and acts on, behind protocols: Slurm, the nodes, the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from slurm_io.config import Config
from slurm_io.reservation.model import NodeSays, Pool, Reach
from slurm_io.slurm.base import Slurm
from slurm_io.slurm.infos import JobInfo


class Clock(Protocol):
    """Time, and waiting for it to pass."""

    def now_s(self) -> float:
        """Epoch seconds."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class RealClock:
    """The machine's own."""

    def now_s(self) -> float:
        """Epoch seconds."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


AskNodes = Callable[[Sequence[str]], Mapping[str, NodeSays]]
ReadPool = Callable[[], Pool]
ReadSteps = Callable[[JobInfo], "SeenSteps"]


@dataclass(frozen=True)
class SeenSteps:
    """Steps that the newest run in a job's output printed, the first and the last, and which run it
    is (from 1). None, with `why`, when no output can be read; `why` is "" while it only shows none.
    """

    run: int | None = None
    first: int | None = None
    last: int | None = None
    why: str = ""


@dataclass(frozen=True)
class World:
    """`config_path` is passed on to commands on nodes; `poll_s` between two looks while waiting;
    `patience_s`: how long a controller may be silent before a swap stops, to be resumed. `say` gets
    a line when a long wait begins, for whoever looks on."""

    slurm: Slurm
    reach: Reach
    config: Config
    read_pool: ReadPool
    ask: AskNodes
    read_steps: ReadSteps
    clock: Clock = field(default_factory=RealClock)
    config_path: str | None = None
    poll_s: float = 1.0
    patience_s: float = 60.0
    quiet_start_s: float = 15.0
    say: Callable[[str], None] = lambda line: None

"""What the watch remembers from one look to the next, and over its own restarts.

Bounded: it holds at most a few entries for each node of one reservation, and `MOST_ENTRIES` of any
kind. Times are epoch seconds.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from slurm_io.errors import HostError

MOST_ENTRIES = 2000
MOST_BYTES = 4 << 20


@dataclass
class Spell:
    """A node's trouble from its first sign on. `jobs`: the protected ones that it carried then."""

    since_s: float
    text: str = ""
    is_fault: bool = True
    jobs: list[str] = field(default_factory=list)


@dataclass
class Failing:
    """Checks that FAILed in a node's last answers: check -> answers in a row and the last text."""

    asked_at_s: float
    counts: dict[str, int] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


@dataclass
class Task:
    """A process that was started. `pid` with `born` names it beyond doubt; 0 = it has ended."""

    work: str
    since_s: float
    started_s: float
    pid: int = 0
    born: int = 0
    failures: int = 0
    not_before_s: float = 0.0


@dataclass
class Filler:
    """A spare's filler: its job, and from when on it may have the next one."""

    job_id: str = ""
    submitted_s: float = 0.0
    failures: int = 0
    not_before_s: float = 0.0


@dataclass
class Memory:
    """All of it. `distrusted`: nodes whose data counts only when proven after that time; `left`:
    nodes that went out of the reservation while they were bad; `recorded`: nodes whose failure is
    in the history and who have not looked well since, over all gaps."""

    last_look_s: float = 0.0
    bad: dict[str, Spell] = field(default_factory=dict)
    failing: dict[str, Failing] = field(default_factory=dict)
    carried: dict[str, list[str]] = field(default_factory=dict)
    said: dict[str, float] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    fillers: dict[str, Filler] = field(default_factory=dict)
    distrusted: dict[str, float] = field(default_factory=dict)
    left: dict[str, float] = field(default_factory=dict)
    recorded: dict[str, float] = field(default_factory=dict)

    def forget_signs(self) -> None:
        """After a gap nothing is known of what lay in it: every node gets its full grace anew."""
        self.bad.clear()
        self.failing.clear()

    def to_json(self) -> bytes:
        """As it is kept, without what would make it too large: the oldest of each kind go."""
        kept = {
            key: dict(list(value.items())[-MOST_ENTRIES:]) if isinstance(value, dict) else value
            for key, value in asdict(self).items()
        }
        return json.dumps(kept, separators=(",", ":")).encode()


_KINDS: dict[str, type[Any]] = {"bad": Spell, "failing": Failing, "tasks": Task, "fillers": Filler}


def memory_of(raw: bytes) -> Memory:
    """Read what :meth:`Memory.to_json` wrote. Raises HostError for anything else."""
    try:
        data = json.loads(raw)
        for key, kind in _KINDS.items():
            data[key] = {name: kind(**value) for name, value in data[key].items()}
        return Memory(**data)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise HostError(
            f"the watch's memory cannot be read ({error}): it starts without one, so that "
            "known situations are told again"
        ) from None

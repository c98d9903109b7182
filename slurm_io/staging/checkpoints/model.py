"""What is said of one save on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

State = Literal["whole", "broken", "unfinished", "unknown"]

MOST_PROBLEMS = 20


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, by the file's name relative to the save (or its own name)."""

    file: str
    text: str


@dataclass(frozen=True)
class Judged:
    """A format's answer. `whole` means that sizes, headers and ends agree: no data was read.

    `unfinished`: what the format writes last is not there. `notes` are no damage.
    """

    state: State
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Save:
    """One save that was looked at. `written_ns`: the latest modification of its files, UTC.

    `step` is None where the name tells none, `format` where no format knows it. `is_young`: it may
    still have been written when it was looked at. `returned`: the job saw this save end well.
    """

    path: str
    format: str | None
    judged: Judged
    step: int | None
    bytes: int
    files: int
    written_ns: int | None
    is_young: bool
    returned: bool

    def to_dict(self) -> dict[str, Any]:
        """As checkpoints.json holds it."""
        problems = self.judged.problems[:MOST_PROBLEMS]
        return {
            "path": self.path,
            "format": self.format,
            "state": self.judged.state,
            "problems": [{"file": one.file, "text": one.text} for one in problems],
            "problem_count": len(self.judged.problems),
            "notes": list(self.judged.notes[:MOST_PROBLEMS]),
            "step": self.step,
            "bytes": self.bytes,
            "files": self.files,
            "written_ts_ns": self.written_ns,
            "young": self.is_young,
            "returned": self.returned,
        }


def sum_up(problems: list[Problem], unknown: list[str], notes: list[str]) -> Judged:
    """Broken by any problem, unknown by anything that could not be looked at, else whole."""
    if problems:
        return Judged("broken", tuple(problems), (*unknown, *notes))
    if unknown:
        return Judged("unknown", (), (*unknown, *notes))
    return Judged("whole", (), tuple(notes))

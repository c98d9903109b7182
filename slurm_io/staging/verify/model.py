"""What a verify answers. Pure data, standard library only: the prolog loads it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from slurm_io.model import CheckAnswer
from slurm_io.records import dataclass, field, fields

if TYPE_CHECKING:
    from slurm_io.staging.verify.l0 import Here
    from slurm_io.staging.verify.proof import Proof

Why = Literal[
    "missing", "truncated", "longer", "zero tail", "content", "changed", "touched", "known bad",
    "unreadable", "not a file", "swapped", "evicted", "suspect", "extra", "debris",
]  # fmt: skip
"""``changed``: same size, but another inode or mtime than when this node verified it. ``touched``:
only its ctime moved (chmod, chown, link, or bytes rewritten and mtime put back). ``suspect``: looks
wrong, but nothing in the manifest can tell. ``debris``: left behind by a copy that was killed."""

HARMLESS: frozenset[str] = frozenset({"extra", "debris", "touched", "evicted", "suspect"})
"""These make a copy DEGRADED; every other reason makes it FAIL."""

LEVELS = {
    0: "mount, machine and ready record",
    1: "stat of every file",
    2: "residency and probes of heads and tails",
    3: "full hash of index files and of a rotating sample",
    4: "full hash of every file",
}


@dataclass(frozen=True, slots=True)
class BadFile:
    """One file that is not as it should be.

    `level` found it. `ranges` are (offset, length) in bytes of the damaged pieces where chunk
    digests tell, () = the whole file.
    """

    path: str
    why: Why
    level: int
    detail: str = ""
    ranges: tuple[tuple[int, int], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def repairable(self) -> bool:
        """Whether copying it again would mend it."""
        return self.why not in HARMLESS


@dataclass(frozen=True)
class VerifyAnswer:
    """What one verify proved.

    `level` is the deepest level that was finished, -1 for none. `bad_files` is bounded; `bad_count`
    and `counts` (by reason) are not. `not_looked_at` says what was left out and what these levels
    cannot see. `bytes_from_cache` came from memory, not from the medium. `seconds` is wall time.
    `missing`: the dataset's folder itself is not there. `wrong_version`: the content id that is
    there instead. `next_cursor`: where the next rotating sample should start.
    """

    answer: CheckAnswer
    asked_level: int
    level: int
    text: str
    content_id: str | None
    bad_files: tuple[BadFile, ...] = ()
    bad_count: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    not_looked_at: tuple[str, ...] = ()
    files: int = 0
    files_stated: int = 0
    files_probed: int = 0
    files_hashed: int = 0
    bytes_read: int = 0
    bytes_from_cache: int = 0
    debris_bytes: int = 0
    seconds: float = 0.0
    used_record: bool = False
    record_problem: str | None = None
    wrong_version: str | None = None
    missing: bool = False
    next_cursor: int | None = None
    here: Here | None = field(default=None, repr=False)
    proof: Proof | None = field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it, without what only a record needs."""
        kept = (each.name for each in fields(self) if each.name not in ("proof", "here"))
        data: dict[str, Any] = {name: getattr(self, name) for name in kept}
        data["counts"] = dict(self.counts)
        data["bad_files"] = [each.to_dict() for each in self.bad_files]
        data["repair"] = [each.to_dict() for each in self.repair]
        return data

    @property
    def repair(self) -> tuple[BadFile, ...]:
        """The bad files that copying again would mend."""
        return tuple(each for each in self.bad_files if each.repairable)


class Deadline:
    """The end of a time budget; None never ends."""

    def __init__(self, budget_s: float | None) -> None:
        self.started_s = time.monotonic()
        self._end_s = None if budget_s is None else self.started_s + budget_s

    def over(self) -> bool:
        """Whether the budget is spent."""
        return self._end_s is not None and time.monotonic() >= self._end_s

    def left_s(self) -> float | None:
        """Seconds left, never negative; None without a budget."""
        return None if self._end_s is None else max(0.0, self._end_s - time.monotonic())

    def spent_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started_s

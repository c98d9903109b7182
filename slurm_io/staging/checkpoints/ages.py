"""Torn, or only not ready yet: when a save may still have been written while it was looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slurm_io.staging.checkpoints.model import Judged

YOUNG_S = 120.0
_OF_ITS_LENGTH = 2.0
_SLACK_NS = 2 * 10**9  # the file server's clock and the node's; times of some are whole seconds


@dataclass(frozen=True)
class Age:
    """`is_young`: written within 120 s before the look, or within twice the time a save took.
    `returned`: the job saw the save end well, and nothing was written since."""

    is_young: bool
    returned: bool


def age_of(written_ns: int | None, now_ns: int, named: Sequence[dict[str, Any]]) -> Age:
    """`named`: what the hook saw of this save (:data:`.wanted.Named`)."""
    if written_ns is None:
        return Age(is_young=False, returned=False)
    longest_s = max((one["longest_s"] for one in named), default=0.0)
    young_s = max(YOUNG_S, _OF_ITS_LENGTH * longest_s)
    returns = [one["returned_ns"] for one in named if one["returned_ns"] is not None]
    returned = bool(returns) and written_ns <= max(returns) + _SLACK_NS
    return Age(now_ns - written_ns < young_s * 1e9, returned)


def settle(judged: Judged, age: Age) -> Judged:
    """What looks broken and may still be written is unfinished."""
    if judged.state == "broken" and age.is_young and not age.returned:
        return Judged("unfinished", judged.problems, judged.notes)
    return judged

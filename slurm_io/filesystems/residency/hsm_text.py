"""Lustre's HSM state of a file: its bits, and the text ``lfs hsm_state`` prints of them.

One line a file; a path may itself hold ``: (``, so the state is the last thing of its shape::

    /path/c: (0x0000000d) released exists archived, archive_id:1
"""

from __future__ import annotations

import re
from typing import NamedTuple

_LINE = re.compile(
    r"(?P<path>.+): \((?P<bits>0x[0-9a-fA-F]{8})\)(?P<words>(?: [a-z_]+)*)"
    r"(?:, archive_id:(?P<archive>[0-9]{1,10}))?"
)
_RELEASED, _LOST = 0x4, 0x40
_NAMES = {
    0x1: "exists", 0x2: "dirty", _RELEASED: "released", 0x8: "archived",
    0x10: "norelease", 0x20: "noarchive", _LOST: "lost",
}  # fmt: skip


class HsmState(NamedTuple):
    """State bits and the archive that holds the copy (None: not said, 0: none)."""

    bits: int
    archive_id: int | None = None

    @property
    def is_released(self) -> bool:
        """The data is in the archive only."""
        return bool(self.bits & _RELEASED)

    @property
    def is_lost(self) -> bool:
        """The archive's copy is gone as well."""
        return bool(self.bits & _LOST)

    @property
    def names(self) -> tuple[str, ...]:
        """The known bits in words, lowest first."""
        return tuple(name for bit, name in _NAMES.items() if self.bits & bit)


def parse_hsm_states(text: str) -> dict[str, HsmState]:
    """Path -> state; lines of another shape are left out, and so is a path that is there twice."""
    states: dict[str, HsmState] = {}
    seen_twice = set()
    for line in text.split("\n"):
        found = _LINE.fullmatch(line)
        if found is None:
            continue
        archive = found["archive"]
        state = HsmState(int(found["bits"], 16), int(archive) if archive else None)
        if states.setdefault(found["path"], state) != state:
            seen_twice.add(found["path"])
    return {path: state for path, state in states.items() if path not in seen_twice}

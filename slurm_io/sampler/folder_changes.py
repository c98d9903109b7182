"""Whether a folder need be listed again: its inode and modification time say so, mostly.

The time is coarse (some milliseconds) and the folder's owner can set it, so a recent change is not
trusted to be the last one, and now and then the answer is yes whatever the time says.
"""

from __future__ import annotations

import os
import time

_SETTLED_NS = 1_000_000_000
_LIST_EVERY = 15


class FolderChanges:
    """Remembers what the folder looked like when it was listed last."""

    def __init__(self) -> None:
        self._listed: tuple[int, int] | None = None
        self._asked = 0

    def may_have_come(self, facts: os.stat_result) -> bool:
        """True when the caller should list the folder, which it then does at once."""
        seen = (facts.st_ino, facts.st_mtime_ns)
        self._asked += 1
        if seen == self._listed and self._asked % _LIST_EVERY:
            return False
        is_settled = time.time_ns() - facts.st_mtime_ns > _SETTLED_NS
        self._listed = seen if is_settled else None
        return True

"""Whether a folder need be listed again: its inode and modification time say so, mostly.

The time is coarse (some milliseconds): a folder that has changed is listed at the next question
too, whatever it says then. And its owner can set the time, so now and then the answer is yes
anyway.
"""

from __future__ import annotations

import os

_LIST_EVERY = 15


class FolderChanges:
    """Remembers what the folder looked like when it was listed last. Ask about once a second."""

    def __init__(self) -> None:
        self._listed: tuple[int, int] | None = None
        self._is_fresh = False
        self._asked = 0

    def may_have_come(self, facts: os.stat_result) -> bool:
        """True when the caller should list the folder, which it then does at once."""
        seen = (facts.st_ino, facts.st_mtime_ns)
        self._asked += 1
        is_new = seen != self._listed
        was_fresh, self._is_fresh = self._is_fresh, is_new
        self._listed = seen
        return is_new or was_fresh or self._asked % _LIST_EVERY == 0

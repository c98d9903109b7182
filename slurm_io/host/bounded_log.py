"""The log of prolog and epilog: slurmd shows their output to nobody, so they keep their own.

Never raises: a full disk or a hostile file in its place costs the line, not the job. One line an
event, ``2026-11-29T10:00:00Z prolog t1 job 12.0: text``, printable characters only.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time

from slurm_io.records import dataclass

LINE_MAX_CHARS = 2000
_OPEN = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class BoundedLog:
    """A file that at `max_bytes` moves to ``<path>.1``; `who` heads each line."""

    path: str
    max_bytes: int
    who: str

    def write(self, text: str) -> None:
        """Append one line."""
        with contextlib.suppress(OSError):
            descriptor = os.open(self.path, _OPEN, 0o640)
            try:
                facts = os.fstat(descriptor)
                if not _is_ours(facts):
                    return
                os.write(descriptor, self._line(text).encode("utf-8", "backslashreplace"))
                if facts.st_size > self.max_bytes:
                    os.rename(self.path, self.path + ".1")
            finally:
                os.close(descriptor)

    def _line(self, text: str) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        safe = "".join(each if each.isprintable() else " " for each in text[:LINE_MAX_CHARS])
        return f"{moment} {self.who}: {safe}\n"


def _is_ours(facts: os.stat_result) -> bool:
    return (
        stat.S_ISREG(facts.st_mode)
        and facts.st_nlink == 1
        and facts.st_uid in (0, os.geteuid())
        and not facts.st_mode & stat.S_IWOTH
    )

"""The mounts of some kind, looked for again from time to time: an automounter brings them late."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from slurm_io.filesystems.mounts import Mount, parse_mountinfo
from slurm_io.host.kept import KeptFile

_PERIOD_NS = 30 * 1_000_000_000


class MountWatch:
    """Mounts of the reading process's own namespace for which `wanted` is true.

    `marks`: a line without any of them (``b" - wekafs "``) is not even parsed; nodes with thousands
    of mounts that come and go have a dozen watches.

    Attributes:
        mounts: in the order the kernel lists them, those covered by a later one included.
    """

    def __init__(self, proc_root: Path, wanted: Callable[[Mount], bool], *marks: bytes) -> None:
        self.mounts: tuple[Mount, ...] = ()
        self._source = KeptFile(proc_root / "self" / "mountinfo")
        self._wanted = wanted
        self._marks = marks or (b"",)
        self._text_hash: int | None = None
        self._looked_ns: int | None = None

    def look(self, mono_ns: int | None = None) -> bool:
        """Read mountinfo again when 30 s have passed (always without `mono_ns`); True when
        `mounts` is another list than before. Only a changed text is parsed."""
        if mono_ns is not None:
            looked_ns = self._looked_ns
            if looked_ns is not None and mono_ns - looked_ns < _PERIOD_NS:
                return False
            self._looked_ns = mono_ns
        content = self._source.read() or b""
        text_hash = hash(content)
        if text_hash == self._text_hash:
            return False
        self._text_hash = text_hash
        lines = content.split(b"\n") if any(mark in content for mark in self._marks) else []
        marked = (line for line in lines if any(mark in line for mark in self._marks))
        text = b"\n".join(marked).decode("utf-8", "surrogateescape")
        before = self.mounts
        self.mounts = tuple(mount for mount in parse_mountinfo(text) if self._wanted(mount))
        return self.mounts != before

    def close(self) -> None:
        """Give the descriptor back."""
        self._source.close()

"""What in a dataset's folder is not the dataset: debris of copy tools, snapshots, our own files.

Debris is told by rules that a real file hardly meets, and everything left out is counted in the
manifest's notes: a file must never go missing in silence.

- ``.NAME.XXXXXX`` (rsync's temporary file): NAME lies beside it, or the six characters are mixed
  (``.config.sample`` is a file, ``.shard.tar.aB3xZ9`` is debris)
- ``NAME.EXT012345`` (s5cmd's temporary file, 6 to 10 digits): NAME.EXT lies beside it
- ``NAME.0a1b2c3d.partial`` (rclone), ``.nfs`` and 16 or more hex digits (NFS, deleted but open)
- folders ``.snapshot``, ``.snapshots``, ``.zfs``, ``lost+found``, ``.~tmp~``, ``.rsync-partial``
- ``.slurm_io*``, and the manifest that is being built with its journal

A pattern of the caller without ``/`` is compared with every component, one with ``/`` with the
whole relative path; ``*`` matches ``/`` too.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Iterable

_FOLDERS = frozenset(
    {b".snapshot", b".snapshots", b".zfs", b"lost+found", b".~tmp~", b".rsync-partial"}
)
_RSYNC = re.compile(rb"\.(.+)\.([A-Za-z0-9]{6})", re.DOTALL)
_MIXED = re.compile(rb".*[0-9]|.*[a-z].*[A-Z]|.*[A-Z].*[a-z]")
_S5CMD = re.compile(rb"(.+\.[A-Za-z][A-Za-z0-9]*?)([0-9]{6,10})", re.DOTALL)
_RCLONE = re.compile(rb".+\.[0-9a-f]{8}\.partial", re.DOTALL)
_DIGITS = frozenset(b"0123456789")
_NFS = re.compile(rb"\.nfs[0-9a-f]{16,}")


class Exclusions:
    """Says of each name why it is left out."""

    def __init__(
        self, patterns: Iterable[str] = (), defaults: bool = True, own: Collection[bytes] = ()
    ) -> None:
        """`own`: relative paths of the files that the build itself writes."""
        self._matchers = [(pattern, _matcher(pattern)) for pattern in patterns]
        self._defaults = defaults
        self._own = frozenset(own)

    def reason(self, raw_path: bytes, is_folder: bool, siblings: Collection[bytes]) -> str | None:
        """The rule by which a path is left out, None to keep it; ``"own"`` for our own files.

        `siblings`: all names of its folder.
        """
        name = raw_path.rpartition(b"/")[2]
        if raw_path in self._own or name[:9] == b".slurm_io":
            return "own"
        for pattern, matches in self._matchers:
            if matches(raw_path, name):
                return pattern
        if not self._defaults:
            return None
        if is_folder:
            return name.decode() if name in _FOLDERS else None
        return _debris(name, siblings)


def _debris(name: bytes, siblings: Collection[bytes]) -> str | None:
    if name[0] == 0x2E:
        found = _RSYNC.fullmatch(name)
        if found and (found[1] in siblings or _MIXED.match(found[2])):
            return "rsync's temporary files"
        if _NFS.fullmatch(name):
            return "deleted files that are still open"
    if name[-1] in _DIGITS and (found := _S5CMD.fullmatch(name)) and found[1] in siblings:
        return "s5cmd's temporary files"
    if name.endswith(b".partial") and _RCLONE.fullmatch(name):
        return "rclone's temporary files"
    return None


def _matcher(pattern: str) -> Callable[[bytes, bytes], bool]:
    raw = pattern.strip("/").encode("utf-8", "surrogateescape")
    # Latin-1 maps every byte to one character: fnmatch then works on exact bytes.
    compiled = re.compile(fnmatch.translate(raw.decode("latin-1")))
    whole = b"/" in raw

    def matches(path: bytes, name: bytes) -> bool:
        return compiled.match((path if whole else name).decode("latin-1")) is not None

    return matches

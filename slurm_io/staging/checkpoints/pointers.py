"""Files and links that name the newest save: ``latest`` and the like, read and followed by name."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass

from slurm_io.staging.beneath import Folder, open_regular, read_at
from slurm_io.staging.checkpoints.names import shown

MEGATRON = b"latest_checkpointed_iteration.txt"
_FILES = (b"latest", MEGATRON, b"latest_checkpoint", b"checkpoint_latest")
_LINK = re.compile(rb"(?:latest|last)[\w.-]{0,100}")
_NAME = re.compile(rb"[\w.=+-]{1,255}")
_MOST_BYTES = 4096


@dataclass(frozen=True)
class Pointer:
    """`names`: the save, None where that cannot be told; `exists`: whether it is there."""

    file: str
    names: str | None
    exists: bool | None

    def to_dict(self) -> dict[str, object]:
        """As checkpoints.json holds it."""
        return {"file": self.file, "names": self.names, "exists": self.exists}


def read_pointers(folder: Folder, listed: list[bytes]) -> list[Pointer]:
    """Those that lie in the folder. Never follows one out of it, never raises for one."""
    found = []
    for raw in sorted({*_FILES, *filter(_LINK.fullmatch, listed)}):
        try:
            is_link = stat.S_ISLNK(folder.stat(raw).st_mode)
            if not is_link and raw not in _FILES:
                continue
            name = os.readlink(raw, dir_fd=folder.fd) if is_link else _told(folder, raw)
        except OSError:
            continue
        found.append(_pointer(folder, raw, name))
    return found


def _told(folder: Folder, raw: bytes) -> bytes:
    fd, _ = open_regular(folder.fd, raw)
    try:
        text = read_at(fd, 0, _MOST_BYTES).strip()
    finally:
        os.close(fd)
    if raw == MEGATRON and text.isdigit():
        return b"iter_%07d" % int(text[:20])
    return text


def _pointer(folder: Folder, raw: bytes, name: bytes) -> Pointer:
    name = name.rstrip(b"/")
    name = name.removeprefix(b"./")
    if not _NAME.fullmatch(name) or name in (b".", b".."):
        return Pointer(shown(raw), None, None)
    try:
        folder.stat(name)
    except FileNotFoundError:
        return Pointer(shown(raw), shown(name), exists=False)
    except OSError:
        return Pointer(shown(raw), shown(name), None)
    return Pointer(shown(raw), shown(name), exists=True)

"""What a version asks of the place it is copied to: ``requires`` in the manifest's header."""

from __future__ import annotations

import os

from slurm_io.staging.manifest.model import Header
from slurm_io.staging.manifest.summary import human_bytes
from slurm_io.staging.verify.identity import Roots, mount_of, mounts_now


def unmet(header: Header, path: str, free_bytes: int, kept_bytes: int, roots: Roots) -> str | None:
    """The first demand that the file system at `path` does not meet; None when it meets them.

    `free_bytes` are free there now; what is `kept` takes its part of the space asked for already.
    A file system that cannot be told is let through: the copy itself will be proven.
    """
    asked = header.requires.get("free_bytes", 0) - kept_bytes
    if free_bytes < asked:
        return (
            f"the manifest requires {human_bytes(header.requires['free_bytes'])} free for it, and "
            f"{human_bytes(asked - free_bytes)} of that are missing"
        )
    allowed = header.requires.get("fstypes", [])
    fstype = _fstype_at(path, roots) if allowed else None
    if fstype is None or fstype in allowed:
        return None
    return f"the manifest requires a file system of {', '.join(allowed)}, and {path!a} is {fstype}"


def _fstype_at(path: str, roots: Roots) -> str | None:
    """Of the nearest folder above that exists."""
    while not os.path.isdir(path) and path not in ("", "/"):
        path = os.path.dirname(path.rstrip("/"))
    try:
        folder = os.open(path or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        mount = mount_of(folder, mounts_now(roots))
    finally:
        os.close(folder)
    return None if mount is None else mount.fstype

"""Lustre HSM, and so FSx for Lustre and Azure Managed Lustre.

In this order: the "released" bit of the layout (attribute ``lustre.lov``, no server of data is
asked and nothing restored), the client's HSM ioctl, ``lfs hsm_state``. When none can be had, a
file of exactly one block is released: that is what the metadata server answers for one (LU-3864).
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Mapping, Sequence

from slurm_io.filesystems.residency.base import (
    SYSTEMS,
    Seen,
    Surroundings,
    System,
    Told,
    Verdict,
)
from slurm_io.filesystems.residency.hsm_text import HsmState, parse_hsm_states
from slurm_io.filesystems.residency.lov_bits import released_bytes
from slurm_io.filesystems.residency.pinned import descriptor_path
from slurm_io.filesystems.residency.shell import batch_commands
from slurm_io.filesystems.residency.tools import ask_tool

_ATTRIBUTE = "lustre.lov"
_USER_STATE = struct.Struct("=IIIIQQ")  # struct hsm_user_state
# _IOR('f', 211, struct hsm_user_state)
_LL_IOC_HSM_STATE_GET = 2 << 30 | _USER_STATE.size << 16 | ord("f") << 8 | 211


def look(descriptor: int, found: os.stat_result, surroundings: Surroundings) -> Verdict:
    """The layout's released bit, else the ioctl."""
    try:
        lov = os.getxattr(descriptor_path(descriptor), _ATTRIBUTE)
    except OSError as error:
        return _by_ioctl(descriptor, found.st_size, f"{_ATTRIBUTE}: {_why(error)}")
    away_bytes = released_bytes(lov, found.st_size)
    if away_bytes is None:
        return _by_ioctl(descriptor, found.st_size, "a layout of unknown form")
    return Verdict("released" if away_bytes else "resident", away_bytes, "lov xattr")


def ask(files: Sequence[Seen], until_s: float) -> Told:
    """``lfs hsm_state``, for what the client itself could not tell."""
    return ask_tool(["lfs", "hsm_state"], files, until_s, _parsed)


def prefetch(root: str, paths: Sequence[str]) -> tuple[str, ...]:
    """Restores in batches of a thousand: all at once can overload the metadata server."""
    return batch_commands("lfs hsm_restore", "-n 1000", root, paths)


def verdict_of(state: HsmState, size_bytes: int, source: str) -> Verdict:
    """A file's HSM bits as a verdict."""
    if not state.is_released:
        return Verdict("resident", 0, source)
    reason = "the archive's copy is lost" if state.is_lost else ""
    return Verdict("released", size_bytes, source, reason)


def _parsed(text: str, files: Sequence[Seen]) -> Mapping[str, Verdict]:
    states = parse_hsm_states(text)
    return {
        each.full: verdict_of(states[each.full], each.size_bytes, "lfs hsm_state")
        for each in files
        if each.full in states
    }


def _by_ioctl(descriptor: int, size_bytes: int, reason: str) -> Verdict:
    """Opens the pinned file without reading it, as ``lfs hsm_state`` does: Lustre restores at the
    first read, not at open."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        opened = os.open(descriptor_path(descriptor), flags)
    except OSError as error:
        return Verdict("unknown", reason=f"{reason}; open: {_why(error)}")
    try:
        answer = fcntl.ioctl(opened, _LL_IOC_HSM_STATE_GET, bytes(_USER_STATE.size))
    except OSError as error:
        return Verdict("unknown", reason=f"{reason}; HSM ioctl: {_why(error)}")
    finally:
        os.close(opened)
    bits, archive_id, *_ = _USER_STATE.unpack(answer)
    return verdict_of(HsmState(bits, archive_id), size_bytes, "hsm ioctl")


def _why(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, "error")


lustre_hsm = SYSTEMS.register("lustre_hsm")(
    System(kinds=("lustre",), look=look, ask=ask, prefetch=prefetch)
)

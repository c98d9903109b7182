"""Asks the file system for a layout: ``lustre.lov``, then ``trusted.lov``, then `lfs getstripe`.

Reading the attribute needs no process, contacts no OST and restores no released file. It needs read
permission on the file (``lustre.``) or CAP_SYS_ADMIN (``trusted.``); `lfs` asks the directory and
needs neither, so it stands in where the attribute is refused or larger than 64 KiB.

Whether a file system *is* Lustre is not asked first: any that answers the attribute will do.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import Literal

from slurm_io.errors import HostError
from slurm_io.filesystems.layout.commands import printable
from slurm_io.filesystems.layout.lov import parse_lov
from slurm_io.filesystems.layout.model import Layout, LayoutError

State = Literal["layout", "none", "not lustre", "denied", "gone", "unreadable"]
ATTRIBUTES = ("lustre.lov", "trusted.lov")
LFS_TIMEOUT_S = 10.0
_TOO_LARGE = (errno.ERANGE, errno.E2BIG)
_WORDS: dict[int, State] = {
    errno.ENOENT: "gone",
    errno.ENOTDIR: "gone",
    errno.ESTALE: "gone",
    errno.EACCES: "denied",
    errno.EPERM: "denied",
}


@dataclass(frozen=True)
class Reading:
    """What came of asking for one layout.

    `state`: "layout"; "none" (a Lustre object without layout of its own: a directory without
    template, an empty file made without objects); "not lustre"; "denied"; "gone"; or "unreadable"
    with `reason` in words. `source` is the attribute's name or "lfs getstripe".
    """

    state: State
    layout: Layout | None = None
    reason: str = ""
    source: str | None = None


def layout_of(
    path: str,
    *,
    is_directory: bool = False,
    dir_fd: int | None = None,
    lfs: str | None = None,
    timeout_s: float = LFS_TIMEOUT_S,
) -> Reading:
    """The layout of a file, or the template of a directory. Follows no symbolic link at `path`.

    With `dir_fd` the path is relative to that open directory. `lfs`: absolute path of the tool
    (looked up when None). Blocks as the file system blocks; `lfs` is ended after `timeout_s`.
    """
    if dir_fd is not None:
        # By our own id: `lfs` is another process and must mean the same folder.
        path = f"/proc/{os.getpid()}/fd/{dir_fd}/{path}"
    reading = _from_attributes(path, is_directory)
    if reading.state in ("denied", "unreadable"):
        from slurm_io.host.run import find_tool  # subprocess, which a prolog rarely needs

        tool = lfs or find_tool("lfs")
        if tool is not None:
            return _from_lfs(tool, path, is_directory, timeout_s, reading)
    return reading


def decode(data: bytes, *, is_directory: bool, source: str) -> Reading:
    """An attribute's bytes as a reading."""
    try:
        return Reading("layout", parse_lov(data, is_directory=is_directory), source=source)
    except LayoutError as error:
        return Reading("unreadable", reason=str(error), source=source)


def _from_attributes(path: str, is_directory: bool) -> Reading:
    answers = []
    for name in ATTRIBUTES:
        try:
            data = os.getxattr(path, name, follow_symlinks=False)
        except OSError as error:
            answers.append(error.errno or 0)
        else:
            return decode(data, is_directory=is_directory, source=name)
    return _what_it_means(answers)


def _what_it_means(answers: list[int]) -> Reading:
    """`answers`: the error number of each attribute in turn."""
    lustre, trusted = answers
    if lustre == errno.ENODATA:
        return Reading("none", reason="it has no layout of its own", source=ATTRIBUTES[0])
    if lustre in (errno.EOPNOTSUPP, errno.EINVAL):
        # No lustre. attributes here; trusted. alone proves a Lustre target or a test, not its lack.
        return Reading("not lustre", reason="no Lustre file system answers here")
    if lustre in _TOO_LARGE or trusted in _TOO_LARGE:
        return Reading("unreadable", reason="the layout is larger than 64 KiB")
    return Reading(_WORDS.get(lustre, "unreadable"), reason=os.strerror(lustre))


def _from_lfs(
    tool: str, path: str, is_directory: bool, timeout_s: float, before: Reading
) -> Reading:
    """`before` is the answer of the attributes, kept when `lfs` does not know better."""
    from slurm_io.filesystems.layout.getstripe import parse_getstripe
    from slurm_io.host.run import run

    # Absolute, so that no name is taken for an option.
    path = os.path.join(os.getcwd(), path)
    argv = [tool, "getstripe", *(["-d"] if is_directory else []), path]
    try:
        done = run(argv, timeout_s)
        if done.return_code != 0 or done.cut:
            return before
        listings = parse_getstripe(done.stdout, os.fsencode(path).decode("utf-8", "replace"))
    except (HostError, LayoutError) as error:
        reason = f"{before.reason}; {printable(str(error))}"
        return Reading(before.state, reason=reason, source="lfs getstripe")
    if not listings:
        return Reading("none", reason="it has no layout of its own", source="lfs getstripe")
    layout = listings[0].layout
    if layout.incomplete is not None:
        reason = f"lfs getstripe ended early: {layout.incomplete}"
        return Reading("unreadable", reason=reason, source="lfs getstripe")
    return Reading("layout", layout, source="lfs getstripe")

"""What is said about one file's residency, and what a system (Lustre, Weka, …) registers.

A system is one module of this folder that registers one :class:`System` under the module's name.
It may answer file by file while the file is pinned (`look`), or with a tool for many files at once
(`ask`). Only what is proven reads "resident"; no system opens a file's data.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from slurm_io.filesystems.kinds import Kind
from slurm_io.registry import Registry

State = Literal["resident", "released", "partial", "suspect", "unknown"]
STATES: tuple[State, ...] = ("resident", "released", "partial", "suspect", "unknown")


class Verdict(NamedTuple):
    """One file's state, how many of its bytes are away, who says so, and why it is not known."""

    state: State
    missing_bytes: int = 0
    source: str = ""
    reason: str = ""


class Seen(NamedTuple):
    """One file as it was pinned. `path` as asked, `full` its real absolute path, `changed_s` the
    later of mtime and ctime (seconds since the epoch)."""

    path: str
    full: str
    size_bytes: int
    blocks: int
    changed_s: float
    owner_uid: int


class Surroundings(NamedTuple):
    """The file system the files lie on: family, exact type ("" = not known), mount options."""

    kind: Kind
    fstype: str = ""
    options: tuple[str, ...] = ()


class Told(NamedTuple):
    """A tool's answers by full path, and why the others have none ("" = nothing was wrong)."""

    verdicts: Mapping[str, Verdict]
    reason: str = ""


Look = Callable[[int, os.stat_result, Surroundings], Verdict]
Ask = Callable[[Sequence[Seen], float], Told]
Prefetch = Callable[[str, Sequence[str]], tuple[str, ...]]


class System(NamedTuple):
    """One system's ways to tell.

    `look(descriptor, stat, surroundings)` gets an O_PATH descriptor of a regular file; "unknown"
    leaves the file to `ask(files, until_s)`, which ends by that value of ``time.monotonic()``.
    `prefetch(root, full_paths)` gives commands for a person; nothing here runs them. `may_accuse`:
    what is still unknown may be accused by its block count (:mod:`.generic`).
    """

    kinds: tuple[Kind, ...]
    look: Look | None = None
    ask: Ask | None = None
    prefetch: Prefetch | None = None
    may_accuse: bool = True


SYSTEMS: Registry[System] = Registry(
    "residency system",
    "slurm_io.filesystems.residency",
    skip=("base", "judge", "answer", "pinned", "tools", "shell", "hsm_text", "lov_bits"),
)

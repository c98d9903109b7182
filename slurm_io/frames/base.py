"""How a library says what its functions mean, and the registry that finds the libraries.

A rule is (last dotted component of the function, end of the file's path) -> what it means. The
class part of a qualified name is no part of a rule: py-spy prints it from 0.4.3 on, for Python 3.11
and later only.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from slurm_io.records import dataclass
from slurm_io.registry import Registry

What = Literal[
    # regions: what the thread is in, wherever below the innermost frame lies
    "data_wait", "ckpt", "collective", "compute", "import", "gc", "restore",
    # whose thread or process it is
    "worker", "fetch", "helper", "writer", "housekeeping", "signal",
    # what it does at this moment
    "reading", "decoding", "transform", "collate", "receiving", "mapped", "get", "put", "wait",
]  # fmt: skip
"""``fetch`` is where a worker's loop (or a loader without workers) calls the dataset; ``helper`` a
loader's own thread beside the training thread; ``writer`` a thread or process that writes a
checkpoint in the background; ``signal`` a handler on top of what was interrupted. ``mapped``: works
on memory that may be a mapped file, so that a read shows as nothing but this. ``get`` and ``put``
are the two ends of a queue, ``wait`` any other wait."""

Note = Literal["", "async", "epoch", "dispatcher", "memmap", "gpu", "metadata", "start-up"]


class Meaning(NamedTuple):
    """What a frame says. `library` is who says it."""

    what: What
    note: Note = ""
    library: str = ""


class Rule(NamedTuple):
    """`names` of functions, none for every function of `file`. `file` is the end of a path
    (``torch/utils/data/dataloader.py``), a folder (``torchvision/transforms/``) or, with ``std:``
    in front, a module of Python's own library; ``native:`` means names of native functions that
    begin like this, ``library:`` the file name of a shared library that begins like this."""

    file: str
    meaning: Meaning
    names: frozenset[str]


@dataclass(frozen=True)
class Library:
    """Rules of one library; `versions` are those the names were read or recorded in."""

    versions: str
    rules: tuple[Rule, ...]


def at(file: str, what: What, *names: str, note: Note = "") -> Rule:
    """One rule: ``at("torch/serialization.py", "ckpt", "save")``."""
    return Rule(file, Meaning(what, note), frozenset(names))


LIBRARIES: Registry[Library] = Registry(
    "library of frames", "slurm_io.frames",
    skip=("base", "table", "thread", "process", "crew", "windows"),
)  # fmt: skip

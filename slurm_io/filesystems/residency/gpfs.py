"""GPFS (Storage Scale): ``mmlsattr -L`` is right both ways.

A migrated file has OFFLINE among its "Misc attributes"; ARCHIVE stands on every file and means
nothing. Block counts do not help: a file with 91.6 % of its blocks was seen OFFLINE. One block of
text a file::

    file name:            /gpfs/proj/models/model-00008-of-00009.safetensors
    Misc attributes:      ARCHIVE OFFLINE
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurm_io.filesystems.residency.base import SYSTEMS, Seen, System, Told, Verdict
from slurm_io.filesystems.residency.shell import batch_commands
from slurm_io.filesystems.residency.tools import ask_tool

_FOLDERS = ("/usr/lpp/mmfs/bin",)
_NAME, _ATTRIBUTES = "file name", "Misc attributes"


def parse_attributes(text: str) -> dict[str, frozenset[str]]:
    """Path -> its "Misc attributes"; a file without that line, or named twice with different
    ones, is left out."""
    found: dict[str, frozenset[str]] = {}
    differing = set()
    path = ""
    for line in text.split("\n"):
        key, colon, value = line.partition(":")
        if key == _NAME and colon:
            path = value.lstrip(" ")
        elif key == _ATTRIBUTES and path:
            words = frozenset(value.split())
            if found.setdefault(path, words) != words:
                differing.add(path)
            path = ""
    return {name: words for name, words in found.items() if name not in differing}


def ask(files: Sequence[Seen], until_s: float) -> Told:
    """In a container the tool may not find libgpfs.so (exit 127): then nothing was measured."""
    return ask_tool(["mmlsattr", "-L"], files, until_s, _parsed, folders=_FOLDERS)


def prefetch(root: str, paths: Sequence[str]) -> tuple[str, ...]:
    """Which recall command there is depends on the archive; a read recalls in any case. To be run
    on a node without GPUs."""
    return batch_commands("cat", "-n 1 -P 8", root, paths, after=" > /dev/null")


def _parsed(text: str, files: Sequence[Seen]) -> Mapping[str, Verdict]:
    attributes = parse_attributes(text)
    return {
        each.full: _verdict(attributes[each.full], each.size_bytes)
        for each in files
        if each.full in attributes
    }


def _verdict(attributes: frozenset[str], size_bytes: int) -> Verdict:
    if "OFFLINE" in attributes:
        return Verdict("released", size_bytes, "mmlsattr")
    return Verdict("resident", 0, "mmlsattr")


gpfs = SYSTEMS.register("gpfs")(System(kinds=("gpfs",), ask=ask, prefetch=prefetch))

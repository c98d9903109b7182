"""Sorts the lines of `lfs getstripe` into files and their components; what the values mean is
:mod:`slurm_io.filesystems.layout.getstripe`'s matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

_PAIR = re.compile(r"\b((?:l[cm]me?_|lmv_|lfm_|l_)?[a-z][a-z_.]*):(?:[ \t]+|$)")
_KEY_FIRST = re.compile(r"\s*(?:-\s*\d*:?\s*)?\{?\s*([a-z][a-z_.]*):(?:\s|$)")
_OST = re.compile(r"\bl_ost_idx:\s*(\d+)")
_ROW = re.compile(r"\s*(\d+)\s+\w+\s+(?:0x[0-9a-fA-F]+|0)\s+\w+\s*\*?\s*$")
_TABLE = re.compile(r"\s*obdidx\s+objid\s+objid\s+group\s*$")
_FIELDS = frozenset(
    {"stripe_count", "stripe_size", "pattern", "layout_gen", "stripe_offset", "pool", "objects"}
    | {"extension_size", "fid", "seq", "object_id", "magic"}
)
_KNOWN = (
    _FIELDS
    | {f"lmm_{name}" for name in _FIELDS}
    | {"lmm_foreign_type", "lfm_type", "lfm_flags", "lfm_length", "lfm_value", "lfm_magic"}
    | {"lcm_layout_gen", "lcm_mirror_count", "lcm_entry_count", "lcm_magic", "lcm_size"}
    | {"lcm_flags", "lcm_ec_count", "lcme_id", "lcme_mirror_id", "lcme_flags", "lcme_offset"}
    | {"lcme_size", "lcme_extent.e_start", "lcme_extent.e_end", "lcme_timestamp", "lcme_data_id"}
    | {"lcme_dstripe_count", "lcme_cstripe_count", "lcme_compr_type", "lcme_compr_lvl"}
    | {"lcme_compr_chunk_kb", "composite_header", "components", "sub_layout", "l_ost_idx", "l_fid"}
)


@dataclass
class Draft:
    """One component while its lines are read."""

    values: dict[str, str] = field(default_factory=dict)
    osts: list[int] = field(default_factory=list)
    is_template: bool = False


@dataclass
class Block:
    """One file while its lines are read."""

    path: str | None = None
    header: dict[str, str] = field(default_factory=dict)
    drafts: list[Draft] = field(default_factory=list)
    table: bool = False

    def draft(self) -> Draft:
        if not self.drafts:
            self.drafts.append(Draft())
        return self.drafts[-1]


def blocks(text: str) -> Iterator[Block]:
    """Split an output into files: a path line, or a header seen again, begins the next."""
    block = Block()
    # Not splitlines(): a path may hold what that takes for the end of a line.
    for line in text.replace("\\\n", " ").split("\n"):
        if not line.strip():
            continue
        if _begins_again(line, block):
            yield block
            block = Block()
        if not _take(line, block):
            yield block
            block = Block(path=line.strip())
    yield block


def _begins_again(line: str, block: Block) -> bool:
    """A header after another one: outputs of several paths that do not name them."""
    key = _first_key(line)
    if not block.drafts or key is None:
        return False
    if key.startswith("lcm_") or key == "composite_header":
        return True
    is_count = key in ("stripe_count", "lmm_stripe_count")
    return is_count and not block.header and bool(block.drafts[-1].values)


def _first_key(line: str) -> str | None:
    """The key a line begins with, None when it begins with none that `lfs` prints."""
    found = _KEY_FIRST.match(line.replace("(Default)", "", 1))
    return found[1] if found is not None and found[1] in _KNOWN else None


def _take(line: str, block: Block) -> bool:
    """Put a line's values where they belong; False when it is a path."""
    if _TABLE.match(line):
        block.table = True
        block.draft()
        return True
    row = _ROW.match(line) if block.table else None
    if row is not None:
        block.draft().osts.append(int(row[1]))
        return True
    ost = _OST.search(line)
    if ost is not None and re.match(r"\s*-\s", line):
        block.draft().osts.append(int(ost[1]))
        return True
    return _takepairs_of(line, block)


def _takepairs_of(line: str, block: Block) -> bool:
    if _first_key(line) is None:
        return False
    for key, value in pairs_of(line.replace("(Default)", "", 1)):
        if key.startswith("lcm_"):
            block.header[key] = value
        elif key not in ("composite_header", "components"):
            _take_value(key, value, block)
    return True


def _take_value(key: str, value: str, block: Block) -> None:
    if key == "lcme_id":
        block.drafts.append(Draft())
    draft = block.draft()
    draft.is_template |= key == "stripe_count"
    draft.values[key.removeprefix("lmm_")] = value


def pairs_of(line: str) -> Iterator[tuple[str, str]]:
    """``a: 1  b: 2`` -> (a, 1), (b, 2); a value may be empty."""
    keys = list(_PAIR.finditer(line))
    for key, after in zip_longest(keys, keys[1:]):
        yield key[1], line[key.end() : after.start() if after else len(line)].strip()

"""What `lfs getstripe` prints: every text form from 2.10 to 2.17, and its YAML.

The output is a list of ``key: value`` pairs in a fixed order, with a table or ``- 0: { … }`` lines
for the objects and the path on a line of its own (which makes the YAML of plain files no YAML). So
one small line reader serves all forms; indentation carries nothing that the order does not::

    lmm_stripe_count:  1                    stripe_count: 1 stripe_size: 1048576 stripe_offset: -1
    obdidx  objid    objid    group         - 0: { l_ost_idx: 0, l_fid: [0x100000000:0x2:0x0] }
    1       690550   0xa8976  0

Text that ends early is a layout with `incomplete` set, whose counts must not be used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

from slurm_io.filesystems.layout import patterns
from slurm_io.filesystems.layout.model import (
    Component,
    Foreign,
    Layout,
    LayoutError,
    MdtLayout,
    Object,
)

_PAIR = re.compile(r"\b((?:l[cm]me?_|lmv_|lfm_|l_)?[a-z][a-z_.]*):(?:[ \t]+|$)")
_KEY_FIRST = re.compile(r"\s*(?:-\s*\d*:?\s*)?\{?\s*([a-z][a-z_.]*):(?:\s|$)")
_OST = re.compile(r"\bl_ost_idx:\s*(\d+)")
_ROW = re.compile(r"\s*(\d+)\s+\w+\s+(?:0x[0-9a-fA-F]+|0)\s+\w+\s*\*?\s*$")
_TABLE = re.compile(r"\s*obdidx\s+objid\s+objid\s+group\s*$")
_SIZE = re.compile(r"(\d+)([KMGT]?)$")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
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


@dataclass(frozen=True)
class Listing:
    """One file or directory of an output; `path` None where the output does not name it."""

    path: str | None
    layout: Layout


@dataclass
class _Draft:
    """One component while its lines are read."""

    values: dict[str, str] = field(default_factory=dict)
    osts: list[int] = field(default_factory=list)
    is_template: bool = False


@dataclass
class _Open:
    """One file while its lines are read."""

    path: str | None = None
    header: dict[str, str] = field(default_factory=dict)
    drafts: list[_Draft] = field(default_factory=list)
    table: bool = False

    def draft(self) -> _Draft:
        if not self.drafts:
            self.drafts.append(_Draft())
        return self.drafts[-1]


def parse_getstripe(text: str, path: str | None = None) -> tuple[Listing, ...]:
    """Every layout of an output. `path`: the one path that was asked for, whose own line (which may
    look like anything) is then taken off first. Raises LayoutError for values that are no numbers.
    """
    if path is not None and text.startswith(path):
        rest = text[len(path) :].lstrip(" ")
        if rest.startswith("\n"):
            found = parse_getstripe(rest)
            return tuple(Listing(path, each.layout) for each in found[:1])
    return tuple(
        Listing(each.path, _layout(each)) for each in _blocks(text) if each.drafts or each.header
    )


def parse_getdirstripe(text: str) -> tuple[MdtLayout, ...]:
    """`lfs getdirstripe` with and without -D: one layout a line that holds lmv_stripe_count."""
    found = []
    for line in text.splitlines():
        values = dict(_pairs(line))
        if "lmv_stripe_count" in values:
            found.append(
                MdtLayout(
                    stripe_count=_number(values, "lmv_stripe_count"),
                    stripe_offset=_number(values, "lmv_stripe_offset"),
                    hash_name=values.get("lmv_hash_type", "none").split(",")[0] or "none",
                    max_inherit=_optional(values, "lmv_max_inherit"),
                    max_inherit_rr=_optional(values, "lmv_max_inherit_rr"),
                )
            )
    return tuple(found)


def _blocks(text: str) -> Iterator[_Open]:
    """Split an output into files: a path line, or a header seen again, begins the next."""
    block = _Open()
    for line in text.replace("\\\n", " ").splitlines():
        if not line.strip():
            continue
        if _begins_again(line, block):
            yield block
            block = _Open()
        if not _take(line, block):
            yield block
            block = _Open(path=line.strip())
    yield block


def _begins_again(line: str, block: _Open) -> bool:
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


def _take(line: str, block: _Open) -> bool:
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
    return _take_pairs(line, block)


def _take_pairs(line: str, block: _Open) -> bool:
    if _first_key(line) is None:
        return False
    for key, value in _pairs(line.replace("(Default)", "", 1)):
        if key.startswith("lcm_"):
            block.header[key] = value
        elif key not in ("composite_header", "components"):
            _take_value(key, value, block)
    return True


def _take_value(key: str, value: str, block: _Open) -> None:
    if key == "lcme_id":
        block.drafts.append(_Draft())
    draft = block.draft()
    draft.is_template |= key == "stripe_count"
    draft.values[key.removeprefix("lmm_")] = value


def _pairs(line: str) -> Iterator[tuple[str, str]]:
    """``a: 1  b: 2`` -> (a, 1), (b, 2); a value may be empty."""
    keys = list(_PAIR.finditer(line))
    for key, after in zip_longest(keys, keys[1:]):
        yield key[1], line[key.end() : after.start() if after else len(line)].strip()


def _layout(block: _Open) -> Layout:
    is_template = any(draft.is_template for draft in block.drafts)
    remarks: list[str] = []
    state = block.header.get("lcm_flags", "none")
    composite = bool(block.header)
    parts = tuple(_component(draft, composite, is_template, remarks) for draft in block.drafts)
    return Layout(
        kind="composite" if composite else "foreign" if parts[0].foreign else "plain",
        components=parts,
        mirror_count=_optional(block.header, "lcm_mirror_count") or 1,
        mirror_state={"0": "none"}.get(state, state),
        layout_gen=_generation(block, composite),
        is_template=is_template,
        incomplete=_what_is_missing(block, parts, composite),
        remarks=tuple(remarks),
    )


def _generation(block: _Open, composite: bool) -> int | None:
    if composite:
        return _optional(block.header, "lcm_layout_gen")
    return _optional(block.drafts[0].values, "layout_gen")


def _component(draft: _Draft, composite: bool, is_template: bool, remarks: list[str]) -> Component:
    values = draft.values
    flags = _flags(values, composite, is_template, remarks)
    pattern = _pattern(values, remarks)
    end = values.get("lcme_extent.e_end", "EOF")
    foreign = None
    if pattern is not None and pattern & patterns.FOREIGN:
        foreign = _foreign(values)
    return Component(
        component_id=_identity(values.get("lcme_id", "N/A")),
        flags=flags,
        start_bytes=_optional(values, "lcme_extent.e_start") or 0,
        end_bytes=None if end == "EOF" else _whole(end, "lcme_extent.e_end"),
        pattern=pattern,
        stripe_count=_count(values, draft),
        stripe_size_bytes=_size(values, "stripe_size"),
        pool=values.get("pool") or None,
        objects=tuple(Object(ost) for ost in draft.osts),
        stripe_offset=_optional(values, "stripe_offset"),
        extension_size_bytes=_size(values, "extension_size"),
        foreign=foreign,
    )


def _flags(values: dict[str, str], composite: bool, is_template: bool, remarks: list[str]) -> int:
    if not composite:
        return 0 if is_template else patterns.INSTANTIATED
    flags = 0
    for word in values.get("lcme_flags", "0").split(","):
        bits = patterns.flags_of(word.lstrip("^"))
        if bits is None:
            remarks.append(f"unknown component flag {word!a:.40}")
        flags |= bits or 0
    return flags


def _pattern(values: dict[str, str], remarks: list[str]) -> int | None:
    text = values.get("pattern")
    if text is None:
        return None
    pattern = patterns.pattern_of(text)
    if pattern is None:
        remarks.append(f"unknown pattern {text!a:.40}")
    elif pattern & ~patterns.KNOWN_PATTERN:
        remarks.append(f"unknown pattern bits {pattern & ~patterns.KNOWN_PATTERN:#x}")
    return pattern


def _foreign(values: dict[str, str]) -> Foreign:
    name = values.get("lfm_type", values.get("foreign_type", "unknown"))
    numbers = {word: number for number, word in patterns.FOREIGN_TYPES.items()}
    known = name if name in numbers else None
    return Foreign(numbers.get(name, 0xFFFFFFFF), known, 0, values.get("lfm_value", "").encode())


def _count(values: dict[str, str], draft: _Draft) -> int:
    """`-q` prints the table only: there the rows are the count."""
    if "stripe_count" in values:
        return _number(values, "stripe_count")
    return len(draft.osts)


def _what_is_missing(block: _Open, parts: Iterable[Component], composite: bool) -> str | None:
    """Why the text cannot be the whole output; None when all that was announced is there."""
    drafts = block.drafts
    if composite:
        announced = _optional(block.header, "lcm_entry_count")
        if announced != len(drafts) or not drafts:
            return f"{len(drafts)} of {announced or 'an unknown number of'} components"
    for number, (draft, part) in enumerate(zip(drafts, parts, strict=True), 1):
        where = f"component {number}: " if composite else ""
        reason = _missing_in(draft, part)
        if reason:
            return where + reason
    return None


def _missing_in(draft: _Draft, part: Component) -> str | None:
    only_objects = not draft.values and draft.osts
    if only_objects or part.foreign is not None:
        return None
    size = part.extension_size_bytes if part.is_extension else part.stripe_size_bytes
    if "stripe_count" not in draft.values or size is None:
        return "its stripe count or size is missing"
    if not draft.is_template and part.stripe_offset is None:
        return "its last lines are missing"
    has_objects = part.is_instantiated and not part.is_released and not part.is_on_mdt
    if has_objects and len(part.objects) != part.stripe_count:
        return f"{len(part.objects)} of {part.stripe_count} objects"
    return None


def _identity(text: str) -> int | None:
    return None if text == "N/A" else _whole(text, "lcme_id") or None


def _number(values: dict[str, str], key: str) -> int:
    if key not in values:
        raise LayoutError(f"lfs getstripe printed no {key}")
    return _whole(values[key], key)


def _optional(values: dict[str, str], key: str) -> int | None:
    text = values.get(key)
    return None if text in (None, "", "N/A") else _whole(str(text), key)


def _whole(text: str, key: str) -> int:
    try:
        number = int(text, 0)
    except ValueError:
        raise LayoutError(f"lfs getstripe: {key} is {text!a:.40}, no number") from None
    if not -(1 << 31) <= number < 1 << 64:
        raise LayoutError(f"lfs getstripe: {key} is {text:.40}, out of range")
    return number


def _size(values: dict[str, str], key: str) -> int | None:
    text = values.get(key)
    if text is None:
        return None
    found = _SIZE.match(text)
    if found is None:
        raise LayoutError(f"lfs getstripe: {key} is {text!a:.40}, no size")
    return _whole(found[1], key) * _UNITS[found[2]]

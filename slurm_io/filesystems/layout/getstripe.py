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
from collections.abc import Iterable
from dataclasses import dataclass

from slurm_io.filesystems.layout import patterns
from slurm_io.filesystems.layout.getstripe_lines import Block, Draft, blocks, pairs_of
from slurm_io.filesystems.layout.model import (
    Component,
    Foreign,
    Layout,
    LayoutError,
    MdtLayout,
    Object,
)

_SIZE = re.compile(r"(\d+)([KMGT]?)$")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True)
class Listing:
    """One file or directory of an output; `path` None where the output does not name it."""

    path: str | None
    layout: Layout


def parse_getstripe(text: str, path: str | None = None) -> tuple[Listing, ...]:
    """Every layout of an output. `path`: the one path that was asked for, whose own line (which may
    look like anything) is then taken off first; only the first layout counts then.

    Raises LayoutError for values that are no numbers, and for another path than that asked for.
    """
    if path is not None and text.startswith(path):
        rest = text[len(path) :].lstrip(" ")
        if rest.startswith("\n"):
            return tuple(Listing(path, each.layout) for each in parse_getstripe(rest)[:1])
    found = tuple(
        Listing(each.path, _layout(each)) for each in blocks(text) if each.drafts or each.header
    )
    if path is not None and any(each.path is not None for each in found):
        raise LayoutError("lfs getstripe names another path than the one it was asked for")
    return found


def parse_getdirstripe(text: str) -> tuple[MdtLayout, ...]:
    """`lfs getdirstripe` with and without -D: one layout a line that holds lmv_stripe_count."""
    found = []
    for line in text.split("\n"):
        values = dict(pairs_of(line))
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


def _layout(block: Block) -> Layout:
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


def _generation(block: Block, composite: bool) -> int | None:
    if composite:
        return _optional(block.header, "lcm_layout_gen")
    return _optional(block.drafts[0].values, "layout_gen")


def _component(draft: Draft, composite: bool, is_template: bool, remarks: list[str]) -> Component:
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


def _count(values: dict[str, str], draft: Draft) -> int:
    """`-q` prints the table only: there the rows are the count."""
    if "stripe_count" in values:
        return _number(values, "stripe_count")
    return len(draft.osts)


def _what_is_missing(block: Block, parts: Iterable[Component], composite: bool) -> str | None:
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


def _missing_in(draft: Draft, part: Component) -> str | None:
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

"""A layout in a few words: ``4 x 1 MiB``, ``1 x 1 MiB to 4 MiB, then all OSTs x 4 MiB``."""

from __future__ import annotations

from slurm_io.filesystems.layout.model import Component, Layout
from slurm_io.filesystems.layout.policy import human

FILE_SYSTEM_DEFAULT = "the file system's default"
_MOST_PARTS = 8


def describe(layout: Layout) -> str:
    """One line, the same for the same striping whatever the objects."""
    if layout.incomplete is not None:
        return f"incomplete: {layout.incomplete}"
    mirrors = layout.mirrors() or {0: layout.components}
    told = [_mirror(parts) for parts in mirrors.values()]
    words = " | ".join(_shortened(told, "mirrors"))
    parity = " + parity" if any(part.is_parity for part in layout.components) else ""
    released = ", released" if layout.is_released else ""
    return f"{words}{parity}{released}"


def _mirror(parts: tuple[Component, ...]) -> str:
    return ", then ".join(_shortened([_words(part) for part in parts], "components"))


def _shortened(told: list[str], what: str) -> list[str]:
    """64 KiB hold more than a thousand components; a reader wants the first."""
    left = len(told) - _MOST_PARTS
    return told if left <= 0 else [*told[:_MOST_PARTS], f"{left} more {what}"]


def _words(part: Component) -> str:
    upto = f" to {human(part.end_bytes)}" if part.end_bytes is not None else ""
    pool = f" in {part.pool}" if part.pool else ""
    if part.foreign is not None:
        return f"foreign {part.foreign.type_name or hex(part.foreign.type)}{upto}"
    if part.is_extension:
        return f"growing by {human(part.extension_size_bytes or 0)}{upto}"
    if part.is_on_mdt:
        return f"on the MDT{upto}"
    return f"{_count(part)}{_size(part)}{upto}{pool}"


def _count(part: Component) -> str:
    count = part.stripe_count
    if count == -1:
        return "all OSTs"
    if count < -1:
        return f"{-count} on each OST"
    if count == 0:
        return "default count"
    return (
        f"{count} on {len(set(part.osts))} OSTs"
        if part.is_overstriped and part.osts
        else str(count)
    )


def _size(part: Component) -> str:
    return f" x {human(part.stripe_size_bytes)}" if part.stripe_size_bytes else ""

"""Lustre's YAML-like texts: import, max_cached_mb, job_stats, io_latency_stats, lnetctl.

Not YAML: before 2.15.53 job_stats is none as a whole (LU-16110), and names may hold what YAML would
take for something else. Read here: ``key: value`` with blocks by indentation, lists of ``- ``, and
``{ a: 1, b: 2, }`` or ``[ a, b ]`` on one line. Every value stays text.
"""

from __future__ import annotations

from typing import TypeAlias

Node: TypeAlias = "str | dict[str, Node] | list[Node]"

_DEEPEST = 24


def parse_nested(text: str) -> dict[str, Node]:
    """The outermost block. Lines of no known shape are left out."""
    lines = [line for line in text.splitlines() if line.strip()]
    found, _ = _block(lines, 0, -1, 0)
    return found if isinstance(found, dict) else {}


def at(node: Node | None, *path: str) -> Node | None:
    """What lies below `node` under these keys; None when nothing does."""
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node


def text_at(node: Node | None, *path: str) -> str | None:
    """The text there; None when it is missing or a block."""
    found = at(node, *path)
    return found if isinstance(found, str) else None


def number_at(node: Node | None, *path: str) -> int | None:
    """The whole number a text there begins with (``6054 usec``)."""
    words = (text_at(node, *path) or "").split(None, 1)
    is_number = bool(words) and words[0].isascii() and words[0].isdigit() and len(words[0]) <= 20
    return int(words[0]) if is_number else None


def _block(lines: list[str], start: int, outer: int, depth: int) -> tuple[Node, int]:
    """The block of lines deeper than `outer`, and the line behind it."""
    found: dict[str, Node] = {}
    items: list[Node] = []
    place = start
    while place < len(lines) and (indent := _indent(lines[place])) > outer:
        line = lines[place].strip()
        if line.startswith("- "):
            item, place = _item(lines, place, indent, depth)
            items.append(item)
            continue
        if items and not found:  # a key beside its list's dashes: the list ended
            break
        key, colon, value = line.partition(":")
        place += 1
        if not colon:
            continue
        if value.strip():
            found.setdefault(_bare(key), _flow(value.strip()))
        else:
            below = _outer_of_block(lines, place, indent)
            block, place = _deeper(lines, place, below, depth)
            found.setdefault(_bare(key), block)
    return (items if items and not found else found), place


def _item(lines: list[str], place: int, indent: int, depth: int) -> tuple[Node, int]:
    """What one dash leads in: a value, or the block whose first line stands behind the dash."""
    rest = lines[place].strip()[2:].lstrip()
    if rest[0] in "[{" or ":" not in rest:
        return _flow(rest), place + 1
    lines[place] = " " * (indent + 2) + rest
    return _deeper(lines, place, indent, depth)


def _deeper(lines: list[str], place: int, outer: int, depth: int) -> tuple[Node, int]:
    if depth >= _DEEPEST:
        return {}, place + 1
    return _block(lines, place, outer, depth + 1)


def _outer_of_block(lines: list[str], place: int, indent: int) -> int:
    """A list may stand as far left as the key it belongs to."""
    is_list = place < len(lines) and lines[place].lstrip().startswith("- ")
    return indent - 1 if is_list and _indent(lines[place]) == indent else indent


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _flow(value: str) -> Node:
    """A value on one line; without its brackets' end it stays text."""
    if value[0] == "{" and value[-1] == "}":
        pairs = (part.partition(":") for part in value[1:-1].split(","))
        return {_bare(key): item.strip() for key, colon, item in pairs if colon}
    if value[0] == "[" and value[-1] == "]":
        return [_bare(part) for part in value[1:-1].split(",") if part.strip()]
    return _bare(value)


def _bare(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text

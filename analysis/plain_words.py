"""Words that a node left in the store, fit for a finding: one line, printable, bounded."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_MOST_IN_A_COMMAND = 256
_MOST_COMMANDS = 4


def one_line(text: str, most: int = 300) -> str:
    """`text` on one line; what cannot be printed is a question mark."""
    cut = text if len(text) <= most else text[: most - 3] + "..."
    return "".join(each if each.isprintable() else "?" for each in cut)


def some_nodes(nodes: Sequence[str], most: int = 8) -> str:
    """``n1, n2 and 5 more``."""
    shown = ", ".join(one_line(node, 64) for node in nodes[:most])
    return shown if len(nodes) <= most else f"{shown} and {len(nodes) - most} more"


def count_of(number: int, noun: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def node_list(nodes: Sequence[str]) -> str | None:
    """``n1,n2`` for a command; None where a name is no node's, or there are too many to type."""
    fits = 0 < len(nodes) <= _MOST_IN_A_COMMAND and all(map(_NODE.fullmatch, nodes))
    return ",".join(nodes) if fits else None


def plain_commands(listed: object) -> tuple[str, ...]:
    """Commands that a check gave, those that a person may copy."""
    given = listed if isinstance(listed, list) else []
    plain = [one for one in given if isinstance(one, str) and one and one.isprintable()]
    return tuple(dict.fromkeys(plain))[:_MOST_COMMANDS]

"""Text of ``lctl get_param`` for many parameters at once: ``name=value`` or ``name=`` and lines."""

from __future__ import annotations

import re

_NAME = re.compile(r"^([A-Za-z0-9_-]+(?:\.[^\s=]+)*)=(.*)$")


def split_params(text: str) -> dict[str, str]:
    """Value by name, in the text's order. Of a name that comes twice the first value counts."""
    values: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        found = _NAME.match(line)
        if found is None:
            current.append(line)
            continue
        current = [found[2]] if found[2] else []
        values.setdefault(found[1], current)
    return {name: "\n".join(lines) for name, lines in values.items()}

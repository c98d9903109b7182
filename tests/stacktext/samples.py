"""Recorded texts: py-spy 0.4.2 and 0.4.3 on CPython 3.8, 3.11 and 3.13, and other printers."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parent / "data"


def sample(name: str) -> bytes:
    """Content of one recorded text."""
    return (DATA / name).read_bytes()


def names(*ends: str) -> list[str]:
    """Recorded texts whose names end like this."""
    return sorted(path.name for path in DATA.iterdir() if path.name.endswith(ends))

"""Recorded texts of file system clients that cannot run here."""

from __future__ import annotations

from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "fixtures"


def sample(name: str) -> str:
    """A file of tests/fixtures, e.g. ``weka/mount_line.txt``."""
    return (FIXTURES / name).read_text()

"""What goes wrong with a run as such."""

from __future__ import annotations


class GridError(RuntimeError):
    """The run or the report failed; the message holds the end of its output."""

"""Fixtures of this room."""

from tests.filesystems.layout.layout_tree import tree

__all__ = ["tree"]

"""Fixtures of this room."""

from tests.filesystems.layout.layout_tree import room, tree

__all__ = ["room", "tree"]

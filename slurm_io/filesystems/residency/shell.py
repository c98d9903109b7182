"""Commands that bring files back, quoted for a shell. They are shown, never run."""

from __future__ import annotations

import os
from collections.abc import Sequence

_NAMED_MAX = 20
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:,@%")
_PLAIN = frozenset(map(chr, range(0x20, 0x7F)))


def shell_word(text: str) -> str:
    r"""One word of a shell's line, in one line of printable ASCII whatever the bytes are.

    >>> shell_word("/data/my file")
    "'/data/my file'"
    >>> shell_word("/data/a\nb")
    "$'/data/a\\012b'"
    """
    letters = set(text)
    if letters and letters <= _SAFE:
        return text
    if letters <= _PLAIN:
        return "'" + text.replace("'", "'\"'\"'") + "'"
    return "$'" + "".join(map(_escaped, os.fsencode(text))) + "'"


def batch_commands(
    command: str, xargs: str, root: str, paths: Sequence[str], after: str = ""
) -> tuple[str, ...]:
    """`command` for `paths`: by name when they are few, else for all files below `root` through
    ``xargs`` with its batch options (a tool passes over what is there already)."""
    if not paths:
        return ()
    if len(paths) <= _NAMED_MAX:
        return (f"{command} {' '.join(map(shell_word, paths))}{after}",)
    return (f"find {shell_word(root)} -type f -print0 | xargs -0 {xargs} {command}{after}",)


def _escaped(byte: int) -> str:
    letter = chr(byte)
    return letter if letter in _PLAIN and letter not in "'\\" else f"\\{byte:03o}"

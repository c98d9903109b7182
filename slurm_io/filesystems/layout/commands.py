"""Command lines for a person to copy: exact, and safe whatever the path holds. Never run by us."""

from __future__ import annotations

import os
import re
import shlex

_ANSI_C = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r", 0x5C: "\\\\"}
_NEVER_RAW = b"!'"  # a shell with history may look for `!` inside of $'…' too
_OPTION = re.compile(r"[A-Za-z0-9.:_-]+")


def shell_word(path: str) -> str:
    r"""A path as one word of a POSIX or bash command line, one line and printable whatever it is.

    Plain paths stay as they are, blanks and quotes get ``'…'``, control characters and bytes that
    are no text ``$'…\n…'`` (bash, zsh, ksh). A leading dash gets ``./`` before it.
    """
    if path.startswith("-"):
        path = "./" + path
    if path.isprintable():
        return shlex.quote(path)
    return "$'" + "".join(_escaped(byte) for byte in os.fsencode(path)) + "'"


def printable(path: str) -> str:
    """A path for a sentence: as it is when printable, else escaped and quoted."""
    return path if path.isprintable() else ascii(path)


def restripe(path: str, count: int, pool: str | None = None) -> str:
    """Give an existing file another stripe count (it is copied; readers may go on reading)."""
    return f"lfs migrate -c {count}{_pool(pool)} {shell_word(path)}"


def add_mirror(path: str, count: int, pool: str | None = None) -> str:
    """Give a mirrored file one more mirror, of that stripe count. (`lfs migrate` would replace all
    mirrors by one: Lustre's own script lfs_migrate passes it their number, -N, for that.)"""
    return f"lfs mirror extend -N -c {count}{_pool(pool)} {shell_word(path)}"


def restripe_small(folder: str, smaller_than_bytes: int) -> str:
    """Give all small files below a folder one stripe."""
    return (
        f"lfs find {shell_word(folder)} -type f -size -{_size(smaller_than_bytes)}"
        " --stripe-count +1 --print0 | xargs -0 -r -n 100 lfs migrate -c 1"
    )


def files_on(folder: str, ost: int, larger_than_bytes: int) -> str:
    """List the large files that have an object on one OST."""
    size = _size(larger_than_bytes)
    return f"lfs find {shell_word(folder)} -type f --ost {ost} -size +{size}"


def set_default(folder: str, count: int, pool: str | None = None) -> str:
    """Give files made in a folder from now on a stripe count; existing ones keep theirs."""
    return f"lfs setstripe -c {count}{_pool(pool)} {shell_word(folder)}"


def restore(path: str) -> str:
    """Bring a released file back from the archive."""
    return f"lfs hsm_restore {shell_word(path)}"


def resync(path: str) -> str:
    """Bring a file's stale mirrors up to date."""
    return f"lfs mirror resync {shell_word(path)}"


def _pool(pool: str | None) -> str:
    return f" -p {pool}" if pool and _OPTION.fullmatch(pool) and not pool.startswith("-") else ""


def _size(size_bytes: int) -> str:
    """With a unit: without one, versions of `lfs find` differ in what they count."""
    for letter, unit in (("G", 1 << 30), ("M", 1 << 20)):
        if size_bytes >= unit and size_bytes % unit == 0:
            return f"{size_bytes // unit}{letter}"
    return f"{max(size_bytes // 1024, 1)}k"


def _escaped(byte: int) -> str:
    if byte in _ANSI_C:
        return _ANSI_C[byte]
    # Octal of three digits ends by itself; \x would swallow a hex digit that follows.
    return chr(byte) if 0x20 <= byte < 0x7F and byte not in _NEVER_RAW else f"\\{byte:03o}"

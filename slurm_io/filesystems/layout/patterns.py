"""Bits of a Lustre layout and the words `lfs` prints for them.

From lustre_user.h of Lustre 2.16 (enum lov_pattern, enum lov_comp_md_entry_flags), with the bits of
2.17 (parity). Bits not listed here are kept and reported, never dropped.
"""

from __future__ import annotations

RAID0 = 0x001
RAID1 = 0x002
PARITY = 0x004
MDT = 0x100
OVERSTRIPED = 0x200
FOREIGN = 0x400
COMPRESSED = 0x800
HOLE = 0x40000000
RELEASED = 0x80000000

STALE = 0x01
PREFER_READ = 0x02
PREFER_WRITE = 0x04
OFFLINE = 0x08
INSTANTIATED = 0x10
NO_SYNC = 0x20
EXTENSION = 0x40
PARITY_COMPONENT = 0x80
COMPRESSED_COMPONENT = 0x100

_PATTERN_NAMES = {
    RAID0: "raid0",
    RAID1: "raid1",
    MDT: "mdt",
    OVERSTRIPED: "overstriped",
    FOREIGN: "foreign",
    COMPRESSED: "compress",
    PARITY: "parity",
    HOLE: "hole",
    RELEASED: "released",
}
_FLAG_NAMES = {
    INSTANTIATED: "init",
    STALE: "stale",
    PREFER_READ: "prefrd",
    PREFER_WRITE: "prefwr",
    OFFLINE: "offline",
    NO_SYNC: "nosync",
    EXTENSION: "extension",
    PARITY_COMPONENT: "parity",
    COMPRESSED_COMPONENT: "compress",
}
KNOWN_PATTERN = sum(_PATTERN_NAMES)
KNOWN_FLAGS = sum(_FLAG_NAMES)
_PATTERN_OF = {name: bit for bit, name in _PATTERN_NAMES.items()}
_FLAG_OF = {name: bit for bit, name in _FLAG_NAMES.items()} | {
    "prefer": PREFER_READ | PREFER_WRITE,
    "compressed": COMPRESSED_COMPONENT,
}

FOREIGN_TYPES = {0: "none", 1: "posix", 2: "pccrw", 3: "pccro", 4: "s3", 0xDA05: "symlink"}
MIRROR_STATES = {0: "none", 1: "ro", 2: "wp", 3: "sp"}


def pattern_name(pattern: int | None) -> str:
    """As `lfs getstripe` of 2.13 and later prints it; bits without a name in hex."""
    if pattern is None:
        return "unknown"
    if pattern == RAID0 | RELEASED:
        return "released"
    return _names(pattern, _PATTERN_NAMES)


def flag_names(flags: int) -> str:
    """Comma-separated, ``0`` for none; bits without a name in hex."""
    return _names(flags, _FLAG_NAMES)


def pattern_of(text: str) -> int | None:
    """A pattern as any version prints it: a number, or words; None for ``unknown``."""
    if text == "released":
        return RAID0 | RELEASED
    return _bits(text, _PATTERN_OF)


def flags_of(text: str) -> int | None:
    """Component flags as `lfs` prints them; None when one of the words is not known."""
    return _bits(text, _FLAG_OF)


def _names(bits: int, names: dict[int, str]) -> str:
    found = [name for bit, name in names.items() if bits & bit]
    rest = bits & ~sum(names)
    return ",".join(found + ([f"{rest:#x}"] if rest else [])) or "0"


def _bits(text: str, known: dict[str, int]) -> int | None:
    bits = 0
    for word in text.split(","):
        bit = known.get(word)
        if bit is None:
            try:
                bit = int(word, 0)
            except ValueError:
                return None
        bits |= bit
    return bits if 0 <= bits < 1 << 32 else None

"""Default striping of a directory's subdirectories over metadata servers (``lustre.lmv`` bytes)."""

from __future__ import annotations

import struct

from slurm_io.filesystems.layout.model import LayoutError, MdtLayout

MAGIC_DEFAULT = 0x0CD30CD0
MAGIC_SPECIFIC = 0x0CD40CD0
_HEADER_BYTES = 48
_OBJECT_BYTES = 24
_HASHES = {0: "none", 1: "all_char", 2: "fnv_1a_64", 3: "crush", 4: "crush2"}
_MOST_MDTS = 2000


def parse_lmv(data: bytes) -> MdtLayout:
    """Raises LayoutError, one line, for anything else (a striped directory's own map included)."""
    order, magic = _order_and_magic(data)
    if magic not in (MAGIC_DEFAULT, MAGIC_SPECIFIC):
        raise LayoutError(f"LMV magic 0x{magic:08X} is no default of a directory")
    if len(data) < _HEADER_BYTES:
        raise LayoutError(f"truncated: {len(data)} bytes of an MDT layout's header")
    count, offset, hash_type, _, inherit, inherit_rr = struct.unpack_from(order + "IIIIBB", data, 4)
    rest = len(data) - _HEADER_BYTES
    if rest not in ((0,) if magic == MAGIC_DEFAULT else (0, count * _OBJECT_BYTES)):
        raise LayoutError(f"MDT layout: {rest} bytes behind the header for {count} stripes")
    if _MOST_MDTS < count < 0xFFFFFFE0:
        raise LayoutError(f"MDT layout: {count} stripes")
    return MdtLayout(
        stripe_count=_signed(count),
        stripe_offset=_signed(offset),
        hash_name=_HASHES.get(hash_type & 0xFFFF, f"{hash_type:#x}"),
        max_inherit=inherit,
        max_inherit_rr=inherit_rr,
        pool=_pool(data[32:48]),
    )


def _order_and_magic(data: bytes) -> tuple[str, int]:
    for order in "<>":
        if len(data) >= 4:
            (magic,) = struct.unpack_from(order + "I", data)
            if magic & 0xFFFF == 0x0CD0:
                return order, magic
    raise LayoutError(f"no MDT layout: it begins with {data[:4].hex() or 'nothing'}")


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number


def _pool(raw: bytes) -> str | None:
    name, end, _ = raw.partition(b"\0")
    if not end or not all(0x21 <= byte <= 0x7E and byte != 0x2F for byte in name):
        raise LayoutError(f"MDT layout: {raw!r} is no pool name")
    return name.decode("ascii") or None

"""Megatron's ``.idx`` files: how long the ``.bin`` beside one must be, to the byte.

Two layouts, both little endian. ``MMIDIDX`` (Megatron-LM, Megatron-DeepSpeed, NeMo, datatrove)::

    "MMIDIDX\\0\\0"  u64 version=1  u8 dtype  u64 n sequences  u64 d documents
    i32 sizes[n]  i64 pointers[n] (bytes)  i64 documents[d]  [i8 modes[n], multimodal]

``TNTIDX`` (fairseq's cached datasets, early Megatron)::

    "TNTIDX\\0\\0"  u64 version=1  u64 dtype  u64 itemsize  u64 n  u64 s  [u64 d]
    i64 dim_offsets[n+1]  i64 data_offsets[n+1] (elements)  i64 sizes[s]  [i64 documents[d]]

The counts come from the file, so they are only ever compared with its size; nothing is
allocated by them. Standard library only.
"""

from __future__ import annotations

import os
import struct
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from slurm_io.errors import ManifestError

_MMAP_MAGIC = b"MMIDIDX\0\0"
_CACHED_MAGIC = b"TNTIDX\0\0"
_MMAP_HEAD_BYTES = 34
_CACHED_HEAD_BYTES = 56
_FAIRSEQ_HEAD_BYTES = 48  # without the number of documents
_MAX_INT = 2**63 - 1
_CHUNK = 1 << 16  # sequences looked at in one go

#: dtype code -> what NumPy may call it. 6 and 7 changed places between Megatron-LM and its
#: forks, so the distance of the pointers decides; 9 and 10 are the forks' own.
DTYPES: dict[int, tuple[str, ...]] = {
    1: ("uint8",),
    2: ("int8",),
    3: ("int16",),
    4: ("int32",),
    5: ("int64",),
    6: ("float64", "float32"),
    7: ("float32", "float64"),
    8: ("uint16",),
    9: ("uint32",),
    10: ("uint64",),
}
ITEM_BYTES = {
    "uint8": 1,
    "int8": 1,
    "uint16": 2,
    "int16": 2,
    "uint32": 4,
    "int32": 4,
    "float32": 4,
    "uint64": 8,
    "int64": 8,
    "float64": 8,
}


class MegatronError(ManifestError):
    """An ``.idx`` file is damaged or none of the known layouts: names file and reason."""


@dataclass(frozen=True)
class MegatronIndex:
    """What an index says. `bin_bytes` is the exact size of a whole ``.bin``.

    `notes` are oddities that damage nothing (a last document without its end).
    """

    layout: str
    dtype: str
    item_bytes: int
    sequences: int
    documents: int | None
    bin_bytes: int
    idx_bytes: int
    multimodal: bool = False
    notes: tuple[str, ...] = ()


def is_index(head: bytes) -> bool:
    """Do the first bytes of a file belong to one of the two layouts?"""
    return head.startswith((_MMAP_MAGIC, _CACHED_MAGIC))


def largest_token(dtype: str) -> int | None:
    """Largest token id the dtype can hold; None for floating point."""
    if dtype.startswith("float"):
        return None
    signed = not dtype.startswith("u")
    return int(2 ** (8 * ITEM_BYTES[dtype] - signed)) - 1


def read_index(descriptor: int, where: str) -> MegatronIndex:
    """Read head and tail of the open index by offset: cheap, whatever its size.

    Raises MegatronError when its length is not what its counts say.
    """
    head = os.pread(descriptor, _CACHED_HEAD_BYTES, 0)
    if head.startswith(_MMAP_MAGIC):
        return _read_mmap(descriptor, head, where)
    if head.startswith(_CACHED_MAGIC):
        return _read_cached(descriptor, head, where)
    raise MegatronError(f"{where}: not a Megatron index (it starts with {head[:9]!r})")


def check_pointers(descriptor: int, index: MegatronIndex, where: str) -> None:
    """Read the whole index: does each sequence begin where the one before ends?

    Raises MegatronError naming the first that does not. Only for the ``MMIDIDX`` layout.
    """
    if index.layout != "MMIDIDX":
        return
    expected = 0
    for start, sizes, pointers in _sequences(descriptor, index.sequences):
        if min(sizes) < 0:
            raise MegatronError(f"{where}: a sequence near number {start} has a negative length")
        ends = list(accumulate((size * index.item_bytes for size in sizes), initial=expected))
        if ends[:-1] != pointers.tolist():
            bad = next(i for i, pointer in enumerate(pointers) if pointer != ends[i])
            raise MegatronError(
                f"{where}: sequence {start + bad} begins at byte {pointers[bad]} instead of "
                f"{ends[bad]}: the index is damaged, build it again"
            )
        expected = ends[-1]


def _read_mmap(descriptor: int, head: bytes, where: str) -> MegatronIndex:
    idx_bytes = os.fstat(descriptor).st_size
    if len(head) < _MMAP_HEAD_BYTES:
        raise MegatronError(f"{where}: {idx_bytes} bytes are too few for an index: truncated")
    version, code, sequences, documents = struct.unpack_from("<QBQQ", head, len(_MMAP_MAGIC))
    _require_version(version, where)
    plain = _MMAP_HEAD_BYTES + 12 * sequences + 8 * documents
    if idx_bytes not in (plain, plain + sequences):
        raise MegatronError(
            f"{where}: {sequences} sequences and {documents} documents need {plain} bytes, "
            f"the file has {idx_bytes}: damaged or truncated"
        )
    dtype = _fitting_dtype(descriptor, code, sequences, where)
    return MegatronIndex(
        layout="MMIDIDX",
        dtype=dtype,
        item_bytes=ITEM_BYTES[dtype],
        sequences=sequences,
        documents=max(documents - 1, 0),
        bin_bytes=_end_of_last(descriptor, sequences, ITEM_BYTES[dtype], where),
        idx_bytes=idx_bytes,
        multimodal=sequences > 0 and idx_bytes != plain,
        notes=_document_notes(descriptor, sequences, documents),
    )


def _read_cached(descriptor: int, head: bytes, where: str) -> MegatronIndex:
    idx_bytes = os.fstat(descriptor).st_size
    if len(head) < _CACHED_HEAD_BYTES:
        raise MegatronError(f"{where}: {idx_bytes} bytes are too few for an index: truncated")
    version, code, item_bytes, sequences, dims, documents = struct.unpack_from("<6Q", head, 8)
    _require_version(version, where)
    names = [name for name in _names(code, where) if ITEM_BYTES[name] == item_bytes]
    if not names:
        raise MegatronError(f"{where}: dtype code {code} does not have {item_bytes} bytes an item")
    arrays_bytes = 8 * (2 * (sequences + 1) + dims)
    with_documents = idx_bytes == _CACHED_HEAD_BYTES + arrays_bytes + 8 * documents
    if not with_documents and idx_bytes != _FAIRSEQ_HEAD_BYTES + arrays_bytes:
        raise MegatronError(
            f"{where}: {sequences} items of {dims} dimensions do not make {idx_bytes} bytes: "
            "damaged or truncated"
        )
    head_bytes = _CACHED_HEAD_BYTES if with_documents else _FAIRSEQ_HEAD_BYTES
    start = head_bytes + 8 * (sequences + 1)
    end = _i64(descriptor, start + 8 * sequences)
    if end < 0 or end * item_bytes > _MAX_INT:
        raise MegatronError(f"{where}: the last item ends at {end}: damaged")
    return MegatronIndex(
        layout="TNTIDX",
        dtype=names[0],
        item_bytes=item_bytes,
        sequences=sequences,
        documents=max(documents - 1, 0) if with_documents else None,
        bin_bytes=end * item_bytes,
        idx_bytes=idx_bytes,
    )


def _require_version(version: int, where: str) -> None:
    if version != 1:
        raise MegatronError(f"{where}: index version {version}, only 1 is known")


def _names(code: int, where: str) -> tuple[str, ...]:
    if code not in DTYPES:
        raise MegatronError(f"{where}: dtype code {code} is none of {sorted(DTYPES)}")
    return DTYPES[code]


def _fitting_dtype(descriptor: int, code: int, sequences: int, where: str) -> str:
    """The dtype; where the code is ambiguous, the one the first pointers agree with."""
    names = _names(code, where)
    if len(names) == 1 or sequences < 2:
        return names[0]
    _, sizes, pointers = next(_sequences(descriptor, sequences))
    for size, here, there in zip(sizes, pointers, pointers[1:], strict=False):
        if size > 0:
            fitting = [name for name in names if ITEM_BYTES[name] * size == there - here]
            return (fitting or list(names))[0]
    return names[0]


def _end_of_last(descriptor: int, sequences: int, item_bytes: int, where: str) -> int:
    """Size of the ``.bin``: last pointer + last size × item size."""
    if sequences == 0:
        return 0
    size = _i32(descriptor, _MMAP_HEAD_BYTES + 4 * (sequences - 1))
    pointer = _i64(descriptor, _MMAP_HEAD_BYTES + 4 * sequences + 8 * (sequences - 1))
    if size < 0 or pointer < 0 or pointer + size * item_bytes > _MAX_INT:
        raise MegatronError(
            f"{where}: the last sequence has {size} tokens at byte {pointer}: damaged"
        )
    return int(pointer + size * item_bytes)


def _document_notes(descriptor: int, sequences: int, documents: int) -> tuple[str, ...]:
    if documents == 0:
        return ("it names no documents",)
    last = _i64(descriptor, _MMAP_HEAD_BYTES + 12 * sequences + 8 * (documents - 1))
    if last == sequences:
        return ()
    return (f"its last document ends at sequence {last} of {sequences}",)


def _i32(descriptor: int, offset: int) -> int:
    return int.from_bytes(_pread(descriptor, 4, offset), "little", signed=True)


def _i64(descriptor: int, offset: int) -> int:
    return int.from_bytes(_pread(descriptor, 8, offset), "little", signed=True)


def _sequences(descriptor: int, count: int) -> Iterator[tuple[int, array[int], array[int]]]:
    """(number of the first, sizes, pointers) for some sequences at a time."""
    for start in range(0, count, _CHUNK):
        many = min(_CHUNK, count - start)
        sizes = _array("i", descriptor, _MMAP_HEAD_BYTES + 4 * start, many)
        pointers_start = _MMAP_HEAD_BYTES + 4 * count + 8 * start
        yield start, sizes, _array("q", descriptor, pointers_start, many)


def _array(kind: str, descriptor: int, offset: int, count: int) -> array[int]:
    values: array[int] = array(kind)
    values.frombytes(_pread(descriptor, count * values.itemsize, offset))
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _pread(descriptor: int, length: int, offset: int) -> bytes:
    """Exactly `length` bytes: the sizes were compared, so fewer mean that the file shrank."""
    parts = []
    while length > 0:
        part = os.pread(descriptor, length, offset)
        if not part:
            raise MegatronError("the index became shorter while it was read")
        parts.append(part)
        length, offset = length - len(part), offset + len(part)
    return b"".join(parts)

"""Megatron's indexes: how long the .bin must be, and indexes that lie."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.staging.megatron import (
    MegatronError,
    MegatronIndex,
    check_pointers,
    is_index,
    largest_token,
    read_index,
)


def mmap_index(
    sizes: Sequence[int],
    code: int = 8,
    item_bytes: int = 2,
    modes: bool = False,
    documents: Sequence[int] | None = None,
) -> bytes:
    starts = [0, *accumulate(size * item_bytes for size in sizes)][: len(sizes)]
    documents = [0, len(sizes)] if documents is None else documents
    return (
        b"MMIDIDX\0\0"
        + struct.pack("<QBQQ", 1, code, len(sizes), len(documents))
        + struct.pack(f"<{len(sizes)}i", *sizes)
        + struct.pack(f"<{len(sizes)}q", *starts)
        + struct.pack(f"<{len(documents)}q", *documents)
        + (bytes(len(sizes)) if modes else b"")
    )


def cached_index(sizes: Sequence[int], documents: int | None, item_bytes: int = 4) -> bytes:
    ends = [0, *accumulate(sizes)]
    head = [1, 4, item_bytes, len(sizes), len(sizes)]
    if documents is not None:
        head.append(documents)
    numbers = [*range(len(sizes) + 1), *ends, *sizes, *range(documents or 0)]
    return b"TNTIDX\0\0" + struct.pack(f"<{len(head)}Q{len(numbers)}q", *head, *numbers)


def read(content: bytes, pointers: bool = True) -> MegatronIndex:
    fd = os.memfd_create("idx")
    try:
        os.write(fd, content)
        index = read_index(fd, "x.idx")
        if pointers:
            check_pointers(fd, index, "x.idx")
        return index
    finally:
        os.close(fd)


def test_size_of_the_bin_is_exact() -> None:
    index = read(mmap_index([3, 0, 5]))
    assert index == MegatronIndex("MMIDIDX", "uint16", 2, 3, 1, 16, 34 + 36 + 16)


@pytest.mark.parametrize(
    ("code", "dtype", "item_bytes"),
    [
        (1, "uint8", 1),
        (2, "int8", 1),
        (3, "int16", 2),
        (4, "int32", 4),
        (5, "int64", 8),
        (6, "float64", 8),
        (6, "float32", 4),  # Megatron-DeepSpeed swapped 6 and 7
        (7, "float32", 4),
        (7, "float64", 8),
        (8, "uint16", 2),
        (9, "uint32", 4),
        (10, "uint64", 8),
    ],
)
def test_every_type_code(code: int, dtype: str, item_bytes: int) -> None:
    index = read(mmap_index([0, 4, 6], code, item_bytes))
    assert (index.dtype, index.item_bytes, index.bin_bytes) == (dtype, item_bytes, 10 * item_bytes)


def test_multimodal_has_a_mode_a_sequence() -> None:
    index = read(mmap_index([3, 5], modes=True))
    assert (index.multimodal, index.bin_bytes) == (True, 16)


def test_an_empty_index_has_an_empty_bin() -> None:
    index = read(mmap_index([], documents=[0]))
    assert (index.sequences, index.documents, index.bin_bytes) == (0, 0, 0)


@pytest.mark.parametrize(("documents", "expected"), [(2, 1), (None, None)])
def test_the_old_layout_with_and_without_documents(
    documents: int | None, expected: int | None
) -> None:
    index = read(cached_index([3, 5], documents))
    assert (index.layout, index.dtype, index.documents) == ("TNTIDX", "int32", expected)
    assert index.bin_bytes == 32


def test_a_document_without_its_end_is_only_noted() -> None:
    index = read(mmap_index([3, 5], documents=[0, 1]))
    assert index.notes == ("its last document ends at sequence 1 of 2",)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not a Megatron index"),
        (b"MMIDIDX\0\0", "too few"),
        (mmap_index([3, 5])[:-1], "damaged or truncated"),
        (mmap_index([3, 5]) + b"\0", "damaged or truncated"),
        (mmap_index([3, 5], code=11), "dtype code 11"),
        (mmap_index([3, 5], code=0), "dtype code 0"),
        (mmap_index([3, -5]), "damaged"),
        (b"MMIDIDX\0\0" + struct.pack("<QBQQ", 2, 8, 0, 0), "version 2"),
        (b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 2**64 - 1, 0), "damaged or truncated"),
        (b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 0, 2**64 - 1), "damaged or truncated"),
        (b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 2**62, 0), "damaged or truncated"),
        (b"TNTIDX\0\0", "too few"),
        (cached_index([3, 5], 2)[:-8], "damaged or truncated"),
        (cached_index([3, 5], 2, item_bytes=2), "does not have 2 bytes"),
        (cached_index([3, -5], 2), "damaged"),
        (b"TNTIDX\0\0" + struct.pack("<6Q", 1, 4, 4, 2**63, 2**63, 9), "damaged or truncated"),
    ],
)
def test_an_index_that_cannot_be_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(MegatronError, match=reason):
        read(content)


def test_a_last_pointer_past_64_bits_is_refused() -> None:
    content = bytearray(mmap_index([1]))
    content[38:46] = struct.pack("<q", 2**63 - 1)
    with pytest.raises(MegatronError, match="damaged"):
        read(bytes(content))


def test_a_pointer_in_the_middle_is_seen_by_the_whole_look_only() -> None:
    content = bytearray(mmap_index([3, 5, 7]))
    content[34 + 12 + 8 : 34 + 12 + 16] = struct.pack("<q", 4)
    assert read(bytes(content), pointers=False).bin_bytes == 30
    with pytest.raises(MegatronError, match="sequence 1 begins at byte 4 instead of 6"):
        read(bytes(content))


@pytest.mark.parametrize(
    ("dtype", "largest"),
    [("uint16", 65535), ("int32", 2**31 - 1), ("int8", 127), ("float32", None)],
)
def test_largest_token(dtype: str, largest: int | None) -> None:
    assert largest_token(dtype) == largest


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 1000), max_size=30), st.booleans())
def test_any_right_index_is_read(sizes: list[int], modes: bool) -> None:
    index = read(mmap_index(sizes, modes=modes))
    assert (index.bin_bytes, index.sequences) == (2 * sum(sizes), len(sizes))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_damage_crashes_the_reader(data: st.DataObject) -> None:
    maker = data.draw(st.sampled_from([mmap_index([3, 5, 0, 7]), cached_index([3, 5, 7], 2)]))
    content = bytearray(maker)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    try:
        index = read(bytes(content[:cut]))
    except MegatronError:
        return
    assert is_index(bytes(content[:cut]))
    assert 0 <= index.bin_bytes < 2**63
    assert index.idx_bytes == cut

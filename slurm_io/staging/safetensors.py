"""Headers of safetensors shards: how long a shard must be, and which tensors it holds.

A shard is ``u64 N, N bytes of JSON, tensor data``, and the JSON says where each tensor ends, so
that ``8 + N + largest end`` is the exact size of the file: a truncated shard is found without
reading its data. Sample header::

    {"__metadata__":{"format":"pt"},"a.weight":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}

Standard library only. Everything read is a user's and hostile: lengths are compared with the
file's before anything is allocated.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slurm_io.errors import ManifestError
from slurm_io.staging.beneath import read_at

#: The format's own limit on a header.
MAX_HEADER_BYTES = 100_000_000
_MAX_INT = 2**63 - 1
_LENGTH_BYTES = 8
_FIXED_BITS = {"BOOL": 8, "F4": 4, "C64": 64}  # the others end in their number of bits
_BITS = re.compile(r"(?:BF|F|I|U)(\d{1,3})(?:_\w{1,16})?")


class SafetensorsError(ManifestError):
    """A shard's header or an index cannot be what the format says: names file and reason."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a header; `begin` and `end` count bytes from the start of the data."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class ShardHeader:
    """A parsed header. `expected_bytes` is the exact size of a whole shard."""

    header_bytes: int
    tensors: Mapping[str, Tensor]
    tensor_bytes: int
    expected_bytes: int


@dataclass(frozen=True)
class ShardCheck:
    """One shard against its own header.

    `expected_bytes` is None when the header cannot be read; `reason` is None when all is well.
    `header` is None unless the header itself could be parsed.
    """

    ok: bool
    bytes: int
    expected_bytes: int | None
    reason: str | None = None
    header: ShardHeader | None = None


@dataclass(frozen=True)
class MissingTensor:
    """A tensor the index promises that the named shard does not hold."""

    tensor: str
    shard: str


@dataclass(frozen=True)
class IndexCheck:
    """An index against the shards it names.

    `ok` is about tensors and shard sizes only; a wrong ``total_size`` is a `warnings` line, never
    damage: writers count shared tensors twice or count file bytes. `unlisted` are tensors that
    shards hold and the index does not name.
    """

    ok: bool
    tensor_bytes: int
    file_bytes: int
    missing: tuple[MissingTensor, ...]
    shards: Mapping[str, ShardCheck]
    warnings: tuple[str, ...]
    unlisted: int


def read_header(descriptor: int, where: str) -> ShardHeader:
    """Header of the shard open as `descriptor` (read by offset, the position stays).

    Raises SafetensorsError when the header is longer than the file or not of the format.
    """
    size_bytes = os.fstat(descriptor).st_size
    start = os.pread(descriptor, _LENGTH_BYTES, 0)
    if len(start) < _LENGTH_BYTES:
        raise SafetensorsError(f"{where}: {size_bytes} bytes are too few for a safetensors file")
    header_bytes = int.from_bytes(start, "little")
    if header_bytes > MAX_HEADER_BYTES:
        raise SafetensorsError(f"{where}: not safetensors, or its first 8 bytes are damaged")
    if _LENGTH_BYTES + header_bytes > size_bytes:
        raise SafetensorsError(
            f"{where}: the header alone has {_LENGTH_BYTES + header_bytes} bytes, "
            f"the file {size_bytes}: truncated"
        )
    return parse_header(read_at(descriptor, _LENGTH_BYTES, header_bytes), where)


def parse_header(text: bytes, where: str) -> ShardHeader:
    """The JSON part of a shard, without the length before it."""
    if text[:1] != b"{":
        raise SafetensorsError(f"{where}: a safetensors header starts with '{{'")
    document = _json_object(text, where)
    tensors = {
        name: _tensor(value, f"{where}: tensor {name!a:.80}")
        for name, value in document.items()
        if name != "__metadata__"
    }
    end = _end_of_data(tensors, where)
    return ShardHeader(len(text), tensors, end, _LENGTH_BYTES + len(text) + end)


def check_shard(descriptor: int, where: str) -> ShardCheck:
    """Is the open shard as long as its header says? Reads the header only."""
    size_bytes = os.fstat(descriptor).st_size
    try:
        header = read_header(descriptor, where)
    except SafetensorsError as error:
        return ShardCheck(False, size_bytes, None, str(error))
    if header.expected_bytes == size_bytes:
        return ShardCheck(True, size_bytes, size_bytes, None, header)
    reason = f"{where}: {size_bytes} bytes, its header says {header.expected_bytes}"
    return ShardCheck(False, size_bytes, header.expected_bytes, reason, header)


def parse_index(text: bytes, where: str) -> tuple[Mapping[str, str], int | None]:
    """``weight_map`` (tensor → shard's file name) and ``metadata.total_size`` (None: not said)."""
    document = _json_object(text, where)
    weights = document.get("weight_map")
    if not isinstance(weights, dict) or not weights:
        raise SafetensorsError(f"{where}: holds no weight_map of tensors to shards")
    for tensor, shard in weights.items():
        if not isinstance(shard, str) or not shard:
            raise SafetensorsError(f"{where}: weight_map[{tensor!a:.80}] must name a file")
    metadata = document.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)  # some converters divide and write 64.0
    return weights, total if _is_count(total) else None


def check_index(
    weights: Mapping[str, str],
    total_size: int | None,
    check: Callable[[str], ShardCheck | None],
) -> IndexCheck:
    """Look up each tensor in the shard the index names.

    `check` answers for a shard's file name, None when there is no such file; all tensors of a
    missing or unreadable shard are missing.
    """
    checks = {name: check(name) for name in sorted(set(weights.values()))}
    found = {name: one for name, one in checks.items() if one is not None}
    held = {name: one.header.tensors for name, one in found.items() if one.header is not None}
    missing = tuple(
        MissingTensor(tensor, shard)
        for tensor, shard in weights.items()
        if tensor not in held.get(shard, {})
    )
    tensor_bytes = sum(one.header.tensor_bytes for one in found.values() if one.header)
    file_bytes = sum(one.bytes for one in found.values())
    return IndexCheck(
        ok=not missing and len(found) == len(checks) and all(one.ok for one in found.values()),
        tensor_bytes=tensor_bytes,
        file_bytes=file_bytes,
        missing=missing,
        shards=found,
        warnings=_total_warnings(total_size, tensor_bytes, file_bytes, len(held) == len(checks)),
        unlisted=sum(len(tensors.keys() - weights.keys()) for tensors in held.values()),
    )


def _total_warnings(
    total: int | None, tensor_bytes: int, file_bytes: int, complete: bool
) -> tuple[str, ...]:
    if total is None or not complete or total == tensor_bytes:
        return ()
    if total == file_bytes:
        return ("total_size counts file bytes",)
    return (f"total_size {total}, tensors {tensor_bytes}",)


def _end_of_data(tensors: Mapping[str, Tensor], where: str) -> int:
    """Largest end; the format allows neither holes nor overlaps."""
    end = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if tensor.begin != end:
            raise SafetensorsError(
                f"{where}: tensor {name!a:.80} begins at {tensor.begin}, the one before ends at "
                f"{end}: the header is damaged"
            )
        end = tensor.end
    return end


def _tensor(value: Any, where: str) -> Tensor:
    if not isinstance(value, dict):
        raise SafetensorsError(f"{where} must be an object")
    dtype, shape, offsets = (value.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str):
        raise SafetensorsError(f"{where}: dtype must be text")
    if not isinstance(shape, list) or not all(_is_count(size) for size in shape):
        raise SafetensorsError(f"{where}: shape must be whole numbers")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise SafetensorsError(f"{where}: data_offsets must be two whole numbers")
    begin, end = offsets
    bits = _bits_of(dtype)
    if end < begin or (bits and bits * _elements(shape) != 8 * (end - begin)):
        raise SafetensorsError(f"{where}: {end - begin} bytes do not fit dtype and shape")
    return Tensor(dtype, tuple(shape), begin, end)


def _bits_of(dtype: str) -> int:
    """Bits of one element, 0 for a dtype this version does not know."""
    found = _BITS.fullmatch(dtype)
    return _FIXED_BITS.get(dtype) or (int(found[1]) if found else 0)


def _elements(shape: list[int]) -> int:
    """Product, cut off where no file could hold it: a hostile shape may have many dimensions."""
    product = 1
    for size in shape:
        product = min(product * size, _MAX_INT)
    return product


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_INT


def _json_object(text: bytes, where: str) -> dict[str, Any]:
    try:
        document = json.loads(text.decode("utf-8-sig"), object_pairs_hook=_no_duplicates)
    except RecursionError:
        raise SafetensorsError(f"{where}: nested too deeply") from None
    except ValueError as error:
        raise SafetensorsError(f"{where}: not JSON ({error})") from None
    if not isinstance(document, dict):
        raise SafetensorsError(f"{where}: a JSON object is expected")
    return document


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found

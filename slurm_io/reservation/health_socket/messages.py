"""The two messages of the node health service that nvidia-resiliency-ext 0.7 asks.

Protocol buffers, package ``nvhcd``, service ``HealthCheckService``, call ``RunHealthCheck``: the
request holds ``args`` (1, repeated string), the answer ``success`` (1, bool), ``exit_code`` (2,
int32), ``output`` (3, string of JSON) and ``error`` (4, string). So little that no generated code
is needed. Source: the project's ``shared_utils/proto/nvhcd.proto`` and its client
``shared_utils/health_check.py``, release line of August 2026.
"""

from __future__ import annotations

METHOD = "/nvhcd.HealthCheckService/RunHealthCheck"
LONGEST_REQUEST_BYTES = 65536
_MOST_ARGS = 256


def read_request(data: bytes) -> tuple[str, ...]:
    """The request's arguments. Raises ValueError for anything that is no such message."""
    if len(data) > LONGEST_REQUEST_BYTES:
        raise ValueError(f"a request of {len(data)} B")
    args: list[str] = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        at, field = _skip(data, at, key & 7)
        if key == 0x0A:
            args.append(field.decode())
        if len(args) > _MOST_ARGS:
            raise ValueError("too many arguments")
    return tuple(args)


def write_answer(success: bool, exit_code: int, output: str, error: str = "") -> bytes:
    """The answer's bytes; fields that are empty are left out, as the format has it."""
    parts = [b"\x08\x01"] if success else []
    if exit_code:
        parts.append(b"\x10" + _as_varint(exit_code))
    for tag, text in ((b"\x1a", output), (b"\x22", error)):
        raw = text.encode("utf-8", "replace")
        if raw:
            parts.append(tag + _as_varint(len(raw)) + raw)
    return b"".join(parts)


def _skip(data: bytes, at: int, kind: int) -> tuple[int, bytes]:
    """Behind one field, and its bytes; fields that later versions add are passed over."""
    if kind == 0:
        return _varint(data, at)[1], b""
    if kind == 2:
        size, at = _varint(data, at)
    elif kind in (1, 5):
        size = 8 if kind == 1 else 4
    else:
        raise ValueError("a field of an unknown kind")
    if at + size > len(data):
        raise ValueError("a field that is cut off")
    return at + size, data[at : at + size]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("a number that is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
    raise ValueError("a number that is too long")


def _as_varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # a negative int32 takes ten bytes
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)

"""LNet's own counters: one line of 11 numbers (``lnet/stats``), or ``lnetctl stats show``."""

from __future__ import annotations

from typing import NamedTuple

from slurm_io.filesystems.lustre.nested import at, number_at, parse_nested


class LnetStats(NamedTuple):
    """Messages and bytes of this node since LNet was started. Field order is the file's."""

    msgs_alloc: int
    msgs_max: int
    errors: int
    send_count: int
    recv_count: int
    route_count: int
    drop_count: int
    send_length: int
    recv_length: int
    route_length: int
    drop_length: int


def parse_lnet_stats(text: str) -> LnetStats | None:
    """``/sys/kernel/debug/lnet/stats``, before 2.12 ``/proc/sys/lnet/stats``."""
    words = text.split()
    if len(words) < 11 or not all(word.isascii() and word.isdigit() for word in words[:11]):
        return None
    if max(map(len, words[:11])) > 20:
        return None
    return LnetStats(*map(int, words[:11]))


def parse_lnetctl_stats(text: str) -> dict[str, int]:
    """``lnetctl stats show``; it has more counters than the file. Empty when it is none."""
    root = at(parse_nested(text), "statistics")
    numbers = {name: number_at(root, name) for name in root} if isinstance(root, dict) else {}
    return {name: number for name, number in numbers.items() if number is not None}

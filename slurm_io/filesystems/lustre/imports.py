"""``import`` and ``state`` of an osc or mdc: its connection to one target, and where it has been.

    import:
        target: lustrefs-OST0000_UUID
        state: FULL
        connection:
           connection_attempts: 1
        rpcs:
           inflight: 8

    current_state: FULL
    state_history:
     - [ 1420750934, DISCONN ]
     - [ 1420750974, FULL ]

States: FULL is healthy, IDLE a connection that an unused osc gave up by itself (2.12 and later).
DISCONN, EVICTED, RECOVER and REPLAY* are an outage as this client saw it; NEW and CONNECTING belong
to one only behind these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from slurm_io.filesystems.lustre.nested import Node, at, number_at, parse_nested, text_at

HEALTHY = frozenset({"FULL", "IDLE"})
_NEUTRAL = frozenset({"NEW", "CONNECTING", "CLOSED"})

_STATE = re.compile(rb"^\s+state: (\w+)", re.MULTILINE)
_ATTEMPTS = re.compile(rb"^\s+connection_attempts: (\d{1,18})\s*$", re.MULTILINE)
_GENERATION = re.compile(rb"^\s+generation: (\d{1,18})\s*$", re.MULTILINE)
_INFLIGHT = re.compile(rb"^\s+inflight: (\d{1,9})\s*$", re.MULTILINE)


class Import(NamedTuple):
    """One ``import`` file. `inflight` counts all RPCs of that moment, pings too; `timeouts` and
    averages are since the mount. What a version does not print is None."""

    name: str | None
    target: str | None
    state: str | None
    connect_flags: tuple[str, ...]
    import_flags: tuple[str, ...]
    failover_nids: tuple[str, ...]
    current_connection: str | None
    connection_attempts: int | None
    generation: int | None
    inflight: int | None
    unregistering: int | None
    timeouts: int | None
    avg_waittime_us: int | None
    read_bytes_per_rpc: int | None
    read_usec_per_rpc: int | None
    write_bytes_per_rpc: int | None
    write_usec_per_rpc: int | None


class Glance(NamedTuple):
    """What is looked at again and again: a new `attempts` or `generation` means that the
    connection was lost between two looks."""

    state: str | None
    attempts: int | None
    generation: int | None
    inflight: int | None


class Outage(NamedTuple):
    """Time without a healthy connection: `state` is the worst seen, `until_s` None: not over."""

    state: str
    from_s: float
    until_s: float | None


def parse_import(text: str) -> Import:
    """One ``import`` file in full."""
    root = at(parse_nested(text), "import")
    averages = [
        number_at(root, f"{direction}_data_averages", name)
        for direction in ("read", "write")
        for name in ("bytes_per_rpc", "usec_per_rpc")
    ]
    return Import(
        text_at(root, "name"),
        text_at(root, "target"),
        text_at(root, "state"),
        _words(at(root, "connect_flags")),
        _words(at(root, "import_flags")),
        _words(at(root, "connection", "failover_nids")),
        text_at(root, "connection", "current_connection"),
        number_at(root, "connection", "connection_attempts"),
        number_at(root, "connection", "generation"),
        number_at(root, "rpcs", "inflight"),
        number_at(root, "rpcs", "unregistering"),
        number_at(root, "rpcs", "timeouts"),
        number_at(root, "rpcs", "avg_waittime"),
        *averages,
    )


def glance(content: bytes) -> Glance:
    """The four things, without reading the rest: hundreds of files are looked at."""
    state = _STATE.search(content)
    numbers = (_first(pattern, content) for pattern in (_ATTEMPTS, _GENERATION, _INFLIGHT))
    return Glance(None if state is None else state[1].decode(), *numbers)


def parse_state_history(text: str) -> list[tuple[int, str]]:
    """(time in seconds since 1970, state) in the file's order; the kernel keeps the last 16."""
    entries = at(parse_nested(text), "state_history")
    found = []
    for entry in entries if isinstance(entries, list) else []:
        words = _words(entry)
        if len(words) == 2 and words[0].isascii() and words[0].isdigit() and len(words[0]) <= 18:
            found.append((int(words[0]), words[1]))
    return found


def outages(history: Iterable[tuple[float, str]]) -> list[Outage]:
    """Times out of FULL and IDLE, each from the first sign of an outage to the return."""
    found: list[Outage] = []
    for when_s, state in history:
        is_open = bool(found) and found[-1].until_s is None
        if state in HEALTHY:
            if is_open:
                found[-1] = found[-1]._replace(until_s=max(when_s, found[-1].from_s))
        elif is_open:
            found[-1] = found[-1]._replace(state=_worse(found[-1].state, state))
        elif state not in _NEUTRAL:
            found.append(Outage(state, when_s, None))
    return found


def _worse(before: str, now: str) -> str:
    """An eviction is worse than any other: what was not written back is lost."""
    return now if now == "EVICTED" else before


def _words(node: Node | None) -> tuple[str, ...]:
    if isinstance(node, str):
        return (node,)
    return tuple(item for item in node if isinstance(item, str)) if isinstance(node, list) else ()


def _first(pattern: re.Pattern[bytes], content: bytes) -> int | None:
    found = pattern.search(content)
    return None if found is None else int(found[1])

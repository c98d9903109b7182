"""Which GPU was seen in which node and when, so that a broken one is known when it comes back.

``<state_dir>/reservations/<name>/gpus.json``, root's, kept by whoever asks nodes and may write. A
GPU that was in a node when that failed is told of, whichever node it is in now: it need not have
been the GPU's fault, but a repair that put the same one back is worth a look.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from slurm_io.errors import HostError
from slurm_io.host.root_folders import read_file, write_file
from slurm_io.reservation.history import HistoryRecord, reservation_folder
from slurm_io.reservation.model import NodeSays
from slurm_io.reservation.status.words import age

FILE_NAME = "gpus.json"
_MOST_GPUS = 8192
_MOST_STAYS = 8
_MOST_BYTES = 8 << 20
_FAILED_LATER_S = 7 * 86400.0
"""A failure counts so long after the last look: nobody looks every minute."""
_TOLD_S = 180 * 86400.0


@dataclass(frozen=True)
class Stay:
    """One GPU in one node, from the first time it was seen there to the last. Epoch seconds."""

    node: str
    first_s: float
    last_s: float


Ledger = dict[str, tuple[Stay, ...]]
"""UUID -> its stays, oldest first."""


def seen(ledger: Mapping[str, tuple[Stay, ...]], says: Iterable[NodeSays]) -> Ledger:
    """The ledger with what these nodes say they have."""
    found = dict(ledger)
    for each in says:
        for uuid in each.gpus:
            found[uuid] = _moved(found.get(uuid, ()), each.node, each.asked_at_s)
    newest = sorted(found, key=lambda uuid: found[uuid][-1].last_s)[-_MOST_GPUS:]
    return {uuid: found[uuid] for uuid in newest}


def notes_on(
    says: NodeSays, ledger: Mapping[str, tuple[Stay, ...]], history: Sequence[HistoryRecord]
) -> tuple[str, ...]:
    """One line for each GPU of this node that was in a node when that failed."""
    notes = []
    for uuid in says.gpus:
        failed = _failures(uuid, ledger.get(uuid, ()), history, says.asked_at_s)
        if failed:
            node, at_s = max(failed, key=lambda each: each[1])
            where = "in this node" if node == says.node else f"in {node}"
            notes.append(f"{uuid} was {where} when it failed {age(says.asked_at_s - at_s)} ago")
    return tuple(notes)


def load(state_dir: str, reservation: str) -> Ledger:
    """The ledger; empty where there is none. Raises HostError for a file that is not root's."""
    with reservation_folder(state_dir, reservation) as folder:
        raw = None if folder is None else read_file(folder, FILE_NAME, _MOST_BYTES)
    return parse(raw or b"{}")


def save(state_dir: str, reservation: str, ledger: Ledger) -> None:
    """Raises HostError."""
    data = {uuid: [asdict(stay) for stay in stays] for uuid, stays in ledger.items()}
    with reservation_folder(state_dir, reservation, create=True) as folder:
        assert folder is not None
        write_file(folder, FILE_NAME, json.dumps({"schema": 1, "gpus": data}).encode())


def parse(raw: bytes) -> Ledger:
    """What is no stay is left out; a damaged file is an empty ledger, made anew with time."""
    try:
        gpus = json.loads(raw).get("gpus", {})
        return {
            uuid: stays
            for uuid, entries in gpus.items()
            if (stays := tuple(stay for entry in entries if (stay := _stay(entry)) is not None))
        }
    except (ValueError, AttributeError, TypeError, RecursionError):
        return {}


def _stay(entry: Any) -> Stay | None:
    times = [entry.get(name) for name in ("first_s", "last_s")]
    fine = isinstance(entry.get("node"), str) and all(
        isinstance(time, int | float) and 0 <= time < 1e12 for time in times
    )
    return Stay(entry["node"], float(times[0]), float(times[1])) if fine else None


def _moved(stays: tuple[Stay, ...], node: str, at_s: float) -> tuple[Stay, ...]:
    if stays and stays[-1].node == node:
        return (*stays[:-1], Stay(node, stays[-1].first_s, max(at_s, stays[-1].last_s)))
    return (*stays, Stay(node, at_s, at_s))[-_MOST_STAYS:]


def _failures(
    uuid: str, stays: Sequence[Stay], history: Sequence[HistoryRecord], now_s: float
) -> list[tuple[str, float]]:
    found = []
    for record in history:
        if record.kind not in ("failure", "swap") or record.bad is None:
            continue
        if now_s - record.at_s > _TOLD_S:
            continue
        listed = uuid in record.gpus
        if listed or any(_covers(stay, record.bad, record.at_s) for stay in stays):
            found.append((record.bad, record.at_s))
    return found


def _covers(stay: Stay, node: str, at_s: float) -> bool:
    return stay.node == node and stay.first_s <= at_s <= stay.last_s + _FAILED_LATER_S


def try_update(state_dir: str, reservation: str, says: Iterable[NodeSays]) -> tuple[Ledger, str]:
    """Read, add, keep; the ledger, and why it could not be read or kept ("" when it could)."""
    says = tuple(says)
    try:
        ledger = load(state_dir, reservation)
    except HostError as error:
        return seen({}, says), f"GPU history not read: {error}"
    found = seen(ledger, says)
    if any(each.gpus for each in says):
        try:
            save(state_dir, reservation, found)
        except HostError as error:
            return found, f"GPU history not kept: {error}"
    return found, ""

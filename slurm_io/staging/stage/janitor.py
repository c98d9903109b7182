"""Removes what killed copies left in a dataset's folder: by strict rules, age, and the manifest."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass

from slurm_io.errors import HostError
from slurm_io.staging import record as records
from slurm_io.staging.beneath import Folder
from slurm_io.staging.manifest.paths import decode_path
from slurm_io.staging.stage.clearing import Cleared, clear
from slurm_io.staging.stage.draft import draft, wanted_manifest
from slurm_io.staging.stage.order import StageOrder
from slurm_io.staging.stage.room import NAME, Room
from slurm_io.staging.stage.target_folder import open_target


@dataclass(frozen=True)
class Debris:
    """What may go: paths, and bytes on disk."""

    paths: tuple[str, ...]
    total_bytes: int


def find(order: StageOrder) -> Debris:
    """What :func:`clean` would remove; changes nothing. Raises SlurmIoError."""
    debris = draft(order, wanted_manifest(order)).survey.debris
    paths = [decode_path(raw) for raw in debris]
    total = sum(debris.values())
    with contextlib.suppress(FileNotFoundError), open_target(order.path) as tree:
        if (size := _old_room(tree, order.debris_age_s)) is not None:
            paths.append(NAME)
            total += size
    return Debris(tuple(paths), total)


def clean(order: StageOrder) -> Cleared:
    """Remove it, unless a stage or verify of the dataset runs. Raises SlurmIoError."""
    manifest = wanted_manifest(order)
    with records.locked(order.state_dir, order.name, order.tier):
        raw_paths = [*draft(order, manifest).survey.debris]
        try:
            with open_target(order.path) as tree:
                if _old_room(tree, order.debris_age_s) is not None:
                    raw_paths.append(NAME.encode())
                return clear(tree, raw_paths)
        except FileNotFoundError:
            return Cleared()
        except OSError as error:
            raise HostError(f"{order.path!a}: {error.strerror}") from error


def _old_room(tree: Folder, age_s: float) -> int | None:
    """Bytes in the room of a killed copy; None when there is none, or it is young."""
    room = Room.found(tree.fd)
    if room is None:
        return None
    with contextlib.closing(room):
        return room.total_bytes() if room.newest_s() <= time.time() - age_s else None

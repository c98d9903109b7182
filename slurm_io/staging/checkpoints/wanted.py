"""Where a job saved, by the ``events`` table of its store and by the request's ``ckpt=``.

Runs in a child (:mod:`.look`): the store is a user's, its tables may be large or hostile.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slurm_io.errors import SpecError
from slurm_io.spec import parse_request
from slurm_io.staging.checkpoints.names import is_part_folder
from slurm_io.store.reader import JobStore, open_job

MOST_FOLDERS = 8
MOST_PATHS = 500
_MOST_ROWS = 20_000  # of a node, the latest
_KINDS = ("ckpt_save", "ckpt_async", "ckpt_background")
_RETURNED = ("ckpt_save", "ckpt_background")  # an asynchronous call says nothing when it returns
_COLUMNS = ("kind", "path", "mono_ns", "end_mono_ns", "failed")

Named = dict[str, Any]
"""``{path, seen_ns, returned_ns: int | None, longest_s}`` of one path that the hook saw saved."""


def wanted_in(store: str) -> dict[str, Any]:
    """``{folders: [{folder, named: [Named], all: bool}], left_out}``, the latest first.

    Raises StoreError.
    """
    job = open_job(Path(store))
    by_folder: dict[str, list[Named]] = {}
    for one in _named(job):
        by_folder.setdefault(series_folder(one["path"]), []).append(one)
    latest = sorted(by_folder, key=lambda folder: -max(one["seen_ns"] for one in by_folder[folder]))
    folders = [{"folder": each, "named": by_folder[each], "all": False} for each in latest]
    asked = _asked(job)
    if asked is not None and asked not in by_folder:
        folders.insert(0, {"folder": asked, "named": [], "all": True})
    return {
        "folders": folders[:MOST_FOLDERS],
        "left_out": max(0, len(folders) - MOST_FOLDERS),
    }


def series_folder(path: str) -> str:
    """The folder in which this save and the ones before and after it lie."""
    folder = posixpath.dirname(posixpath.normpath(path))
    while len(folder) > 1 and is_part_folder(posixpath.basename(folder)):
        folder = posixpath.dirname(folder)
    return folder


def _named(job: JobStore) -> list[Named]:
    """By path, the latest of all nodes."""
    found: dict[str, Named] = {}
    for node in job.nodes.values():
        for row in _saves(node.table("events", _COLUMNS)):
            path = row["path"]
            one = found.setdefault(
                path, {"path": path, "seen_ns": 0, "returned_ns": None, "longest_s": 0.0}
            )
            spent_ns = max(0, row["end_mono_ns"] - row["mono_ns"])
            end_ns = row["ts_ns"] + spent_ns
            one["seen_ns"] = max(one["seen_ns"], end_ns)
            one["longest_s"] = max(one["longest_s"], spent_ns / 1e9)
            if row["kind"] in _RETURNED and row["failed"] is False:
                one["returned_ns"] = max(end_ns, one["returned_ns"] or 0)
    return sorted(found.values(), key=lambda one: -one["seen_ns"])[:MOST_PATHS]


def _saves(events: pa.Table) -> Iterator[dict[str, Any]]:
    is_save = pc.is_in(events["kind"].cast(pa.string()), value_set=pa.array(_KINDS))
    rows = events.filter(pc.and_(is_save, pc.is_valid(events["path"])))
    rows = rows.slice(max(0, rows.num_rows - _MOST_ROWS))
    for row in rows.to_pylist():
        clocks = (row["ts_ns"], row["mono_ns"], row["end_mono_ns"])
        if row["path"].startswith("/") and "\0" not in row["path"] and None not in clocks:
            yield row


def _asked(job: JobStore) -> str | None:
    """The request as the prolog merged it, else the job's comment."""
    for _, node in sorted(job.nodes.items()):
        request = node.checks.get("request") if isinstance(node.checks, dict) else None
        if isinstance(request, dict):
            path = request.get("ckpt")
            return _absolute(path) if isinstance(path, str) else None
    try:
        spec = parse_request((job.job.comment if job.job is not None else None) or "")
    except SpecError:
        return None
    return _absolute(spec.ckpt) if spec is not None and spec.ckpt else None


def _absolute(path: str) -> str | None:
    return posixpath.normpath(path) if path.startswith("/") and "\0" not in path else None

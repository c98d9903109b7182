"""What this node holds of a dataset: its record, and what of the manifest is not on its disk.

Runs in a child that can be killed: manifests and folders may lie on file systems that hang.
"""

from __future__ import annotations

import stat
import time
from pathlib import Path
from typing import Any

from slurm_io.config import Config
from slurm_io.errors import HostError, ManifestError, SpecError
from slurm_io.spec import JobSpec
from slurm_io.staging import record as records
from slurm_io.staging.beneath import Folder
from slurm_io.staging.datasets import Names, Place, place_of
from slurm_io.staging.manifest.files import form_of, open_manifest, read_header
from slurm_io.staging.manifest.jsonl import read_entries
from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.manifest.paths import encode_path
from slurm_io.staging.record import Record
from slurm_io.staging.verify.driver import here
from slurm_io.staging.verify.identity import Roots
from slurm_io.staging.verify.l0 import binding_problem

_CLOCK_EVERY = 512


def read_data(
    config: Config, node: str, dataset: str, tier: str, state_dir: str, budget_s: float
) -> dict[str, Any]:
    """The fields of :class:`~slurm_io.reservation.model.DataSays`, as JSON holds them."""
    try:
        place = place_of(config, JobSpec(dataset=dataset, tier=tier), Names(node, "root"))
        assert place is not None
        record = records.load(state_dir, place.name, place.tier)
    except (SpecError, HostError) as error:
        return _says(None, problem=str(error))
    until_s = time.monotonic() + budget_s
    wanted, total_bytes, problem = _wanted(place)
    bytes_behind = files_behind = None
    if place.manifest is not None and problem is None:
        try:
            bytes_behind, files_behind = _behind(place.path, place.manifest, until_s)
        except (OSError, ManifestError, TimeoutError) as error:
            problem = f"what is missing could not be counted: {error}"
    return {
        **_says(record, _record_problem(record) or problem),
        "wanted_id": wanted,
        "total_bytes": total_bytes,
        "bytes_behind": bytes_behind,
        "files_behind": files_behind,
    }


def is_what_checks_see(config: Config, node: str, dataset: str, tier: str) -> bool:
    """Whether a job that names no tier, as the checks do, would get this copy."""
    try:
        place = place_of(config, JobSpec(dataset=dataset), Names(node, "root"))
    except SpecError:
        return False
    return place is not None and place.tier == tier


def folder_of(config: Config, node: str, dataset: str, tier: str) -> str | None:
    """The dataset's folder on this node, None where the site has none."""
    try:
        place = place_of(config, JobSpec(dataset=dataset, tier=tier), Names(node, "root"))
    except SpecError:
        return None
    return None if place is None else place.path


def _says(record: Record | None, problem: str | None) -> dict[str, Any]:
    verified_ns = record.verified_ns if record is not None else 0
    return {
        "content_id": record.content_id if record is not None else None,
        "state": record.state if record is not None else "absent",
        "level": record.level if record is not None else -1,
        "age_s": max(0.0, time.time() - verified_ns / 1e9) if verified_ns > 0 else None,
        "rate_bytes_s": record.bytes_per_s if record is not None else None,
        "problem": problem,
    }


def _record_problem(record: Record | None) -> str | None:
    """A record that came with a copied disk or image proves nothing here."""
    if record is None or record.state == "absent":
        return None
    try:
        with Folder.at(record.path) as folder:
            return binding_problem(record, here(Roots(), folder)[0])
    except OSError as error:
        return f"the folder of its record cannot be opened: {error.strerror}"


def _wanted(place: Place) -> tuple[str | None, int | None, str | None]:
    """The version wanted here, the manifest's bytes, and why one of them cannot be told."""
    if place.manifest is None:
        why = "the dataset has no manifest: name one in [dataset.NAME]"
        return place.content_id, None, None if place.content_id else why
    try:
        header = read_header(place.manifest)
    except ManifestError as error:
        return place.content_id, None, str(error)
    return place.content_id or header.content_id, header.total_bytes, None


def _behind(path: str, manifest: str, until_s: float) -> tuple[int, int]:
    """Bytes and files of the manifest that are not there in their size.

    Raises OSError, ManifestError, TimeoutError.
    """
    entries = (
        read_entries(manifest)[1] if form_of(manifest) == "jsonl" else open_manifest(manifest).files
    )
    missing_bytes = missing_files = 0
    folder = Folder.at(path) if Path(path).is_dir() else None
    try:
        for number, entry in enumerate(entries):
            if number % _CLOCK_EVERY == 0 and time.monotonic() > until_s:
                raise TimeoutError(f"the time was over after {number} files")
            if folder is None or not _is_there(folder, entry):
                missing_files += 1
                missing_bytes += entry.size_bytes or 0
    finally:
        if folder is not None:
            folder.close()
    return missing_bytes, missing_files


def _is_there(folder: Folder, entry: FileEntry) -> bool:
    try:
        found = folder.stat(encode_path(entry.path))
    except OSError:
        return False
    if stat.S_ISLNK(found.st_mode):
        return True  # a link inside the folder may stand for a file; the verify judges it
    return stat.S_ISREG(found.st_mode) and entry.size_bytes in (None, found.st_size)

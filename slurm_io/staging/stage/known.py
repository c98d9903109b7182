"""What this node has proven of a folder's files: by its record, and by an unfinished stage."""

from __future__ import annotations

import contextlib
import os

from slurm_io.errors import SlurmIoError
from slurm_io.staging import record as records
from slurm_io.staging.beneath import Folder
from slurm_io.staging.manifest.model import Manifest
from slurm_io.staging.record import Record
from slurm_io.staging.stage.order import StageOrder
from slurm_io.staging.stage.this_boot import journal_key
from slurm_io.staging.verify import l0
from slurm_io.staging.verify.driver import here
from slurm_io.staging.verify.expected import FromManifest
from slurm_io.staging.verify.journal import known_of
from slurm_io.staging.verify.table import Stamp

PROVEN_LEVEL = 4


def record_of_here(order: StageOrder, tree: Folder) -> Record | None:
    """The node's record of this very folder; None when there is none that means anything."""
    try:
        record = records.load(order.state_dir, order.name, order.tier)
    except SlurmIoError:
        return None  # damaged: it proves nothing, and is replaced
    if record is None or l0.binding_problem(record, here(order.roots, tree)[0]) is not None:
        return None
    return record


def known_by_table(
    order: StageOrder, record: Record | None, manifest: Manifest, expected: FromManifest
) -> dict[int, Stamp]:
    """Stamps of files that a full hash proved, of this version or with this version's digest."""
    if record is None or record.table is None:
        return {}
    known: dict[int, Stamp] = {}
    same = record.content_id == manifest.header.content_id
    numbers = {entry.path: number for number, entry in enumerate(expected.files)}
    try:
        table = records.open_table(order.state_dir, record)
        assert table is not None
        with contextlib.closing(table):
            for _, row in table.rows(range(table.count)):
                number = numbers.get(row.entry.path)
                if number is None or row.level != PROVEN_LEVEL:
                    continue
                digest = expected.files[number].digest
                if same or (digest is not None and digest == row.entry.digest):
                    known[number] = row.stamp
    except SlurmIoError:
        return {}
    return known


def known_by_journal(order: StageOrder, manifest: Manifest, tree: Folder) -> dict[int, Stamp]:
    """Stamps of files that an unfinished stage or verify proved."""
    try:
        with records.opened(order.state_dir, order.name, order.tier) as folder:
            if folder is None:
                return {}
            inode = os.fstat(tree.fd).st_ino
            return known_of(folder, journal_key(manifest.header.content_id, order.roots), inode)
    except SlurmIoError:
        return {}

"""From a verify's answer to the node's record: what was really proven, no more."""

from __future__ import annotations

import time
from typing import BinaryIO

from slurm_io.errors import HostError
from slurm_io.staging.manifest.model import Manifest
from slurm_io.staging.record import Record, State, save
from slurm_io.staging.verify.model import VerifyAnswer
from slurm_io.staging.verify.proof import Proof
from slurm_io.staging.verify.table import TableForm
from slurm_io.staging.verify.table_writing import write_table

_STATES: dict[str, State] = {"OK": "ready", "DEGRADED": "degraded", "FAIL": "failed"}


def record_of(
    answer: VerifyAnswer, name: str, tier: str, path: str, manifest: Manifest, old: Record | None
) -> Record:
    """The record that an answer with a proof justifies. Raises HostError when there is none."""
    proof, place = answer.proof, answer.here
    if answer.wrong_version is not None and answer.level < 4:
        raise HostError(
            f"no record written: this node holds a record of {answer.wrong_version}; only level 4 "
            "can prove that the folder was replaced"
        )
    if proof is None or place is None or answer.level < 1:
        raise HostError("no record written: level 1 was not finished")
    if place.filesystem is None or place.machine.machine_id is None:
        raise HostError("no record written: /etc/machine-id or the folder's mount cannot be told")
    same = old is not None and old.content_id == manifest.header.content_id
    cursor = answer.next_cursor if answer.next_cursor is not None else 0
    if answer.next_cursor is None and same and old is not None:
        cursor = old.cursor
    return Record(
        name=name,
        tier=tier,
        path=path,
        content_id=manifest.header.content_id,
        state=_state(answer, proof),
        machine=place.machine,
        filesystem=place.filesystem,
        root_inode=place.root_inode,
        level=proof.lowest_level(),
        method=old.method if same and old is not None else "",
        source=old.source if same and old is not None else "",
        started_ns=old.started_ns if same and old is not None else 0,
        finished_ns=old.finished_ns if same and old is not None else 0,
        verified_ns=time.time_ns(),
        files=proof.count,
        total_bytes=manifest.header.total_bytes or 0,
        bytes_per_s=old.bytes_per_s if same and old is not None else None,
        cursor=cursor,
        links=manifest.header.links,
    )


def keep(folder: int, record: Record, proof: Proof) -> Record:
    """Write it in a folder from :func:`slurm_io.staging.record.locked`. Raises HostError."""

    def write(out: BinaryIO, name: str) -> TableForm:
        return write_table(out, name, proof.count, proof.rows, proof.manifest.segments())

    return save(folder, record, write)


def _state(answer: VerifyAnswer, proof: Proof) -> State:
    if answer.answer == "UNKNOWN" or (answer.answer == "OK" and proof.lowest_level() < 1):
        return "verifying"
    return _STATES[answer.answer]

"""The node's record while a stage goes on: copying, copied, verifying, then what was proven."""

from __future__ import annotations

import time
from dataclasses import replace

from slurm_io.errors import HostError
from slurm_io.staging.record import Record, State, save
from slurm_io.staging.stage.draft import Draft
from slurm_io.staging.verify import l0
from slurm_io.staging.verify.keep import keep, record_of
from slurm_io.staging.verify.model import VerifyAnswer

RATE_SHARE = 0.1
"""Of the dataset's bytes: so many make a rate."""


class Keeper:
    """Writes the record of one stage in the folder that its caller has locked."""

    def __init__(self, folder: int, found: Draft, place: l0.Here) -> None:
        """Raises HostError where no record can be made."""
        if place.filesystem is None or place.machine.machine_id is None:
            raise HostError("no record can be kept: no /etc/machine-id, or the mount is unknown")
        self._folder = folder
        self._found = found
        old, header = found.record, found.manifest.header
        self._record = Record(
            name=found.order.name,
            tier=found.order.tier,
            path=found.order.path,
            content_id=header.content_id,
            state="copying",
            machine=place.machine,
            filesystem=place.filesystem,
            root_inode=place.root_inode,
            method=old.method if old is not None else "",
            source=old.source if old is not None else "",
            started_ns=time.time_ns(),
            files=header.file_count,
            total_bytes=header.total_bytes or 0,
            bytes_per_s=old.bytes_per_s if old is not None else None,
            verified_ns=self._oldest_proof(old),
            links=header.links,
        )

    def say(self, state: State) -> None:
        """Durably, and without a table: it proves nothing of any file. Raises HostError."""
        save(self._folder, replace(self._record, state=state))

    def copied(self, engines: str, sources: str, moved_bytes: int, copy_s: float) -> None:
        """How files came; said with the next state. A small repair tells no rate of a copy."""
        rate, record = self._record.bytes_per_s, self._record
        if copy_s > 0 and (rate is None or moved_bytes >= RATE_SHARE * record.total_bytes):
            rate = moved_bytes / copy_s or None
        self._record = replace(record, method=engines, source=sources, bytes_per_s=rate)

    def keep(self, answer: VerifyAnswer, state: State | None) -> Record:
        """What the last verify proved; `state` overrules its word. Raises HostError."""
        ours, order = self._record, self._found.order
        record = record_of(
            answer, order.name, order.tier, order.path, self._found.manifest, old=None
        )
        record = replace(
            record,
            state=state or record.state,
            method=ours.method,
            source=ours.source,
            started_ns=ours.started_ns,
            finished_ns=time.time_ns(),
            bytes_per_s=ours.bytes_per_s,
            verified_ns=ours.verified_ns or record.verified_ns,
        )
        assert answer.proof is not None
        return keep(self._folder, record, answer.proof)

    def _oldest_proof(self, old: Record | None) -> int:
        """When files that are kept unread were proven; 0 when there are none."""
        unfinished = old is not None and old.state in ("copying", "copied", "verifying")
        return old.verified_ns if old is not None and (self._found.by_record or unfinished) else 0

"""What is to be verified. Pure data, standard library only: the prolog loads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_io.records import dataclass, field
from slurm_io.staging.manifest.model import Manifest
from slurm_io.staging.record import Record
from slurm_io.staging.verify.identity import Roots
from slurm_io.staging.verify.table import Table

if TYPE_CHECKING:
    from slurm_io.staging.verify.journal import Journal


@dataclass(frozen=True)
class Target:
    """One copy of a dataset.

    `content_id`: the version wanted; None = whatever `manifest` or `record` names. A manifest of
    another version is not compared with. `record_problem`: why a record could not be read.
    `keep_proof`: collect what a record needs (needs the manifest).
    """

    path: str
    content_id: str | None = None
    manifest: Manifest | None = None
    record: Record | None = None
    table: Table | None = None
    record_problem: str | None = None
    keep_proof: bool = False
    journal: Journal | None = None
    roots: Roots = field(default_factory=Roots)

    @property
    def wanted(self) -> str | None:
        """The version that should be there."""
        if self.content_id is None and self.manifest is not None:
            return self.manifest.header.content_id
        return self.content_id

"""A dataset at a source, a node's folder to stage it into, and what faults need."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slurm_io.staging import record as records
from slurm_io.staging.manifest.files import write_manifest
from slurm_io.staging.manifest.model import Manifest
from slurm_io.staging.record import Record
from slurm_io.staging.stage.model import SourceSpec, StageAnswer
from slurm_io.staging.stage.order import Patience, StageOrder
from slurm_io.staging.stage.run import stage
from slurm_io.staging.verify.driver import Target, verify
from slurm_io.staging.verify.identity import Roots
from tests.labs.fault_kit import MACHINE_ID, Bench, fill, manifest_of

SIZES = {
    "index.json": 5_000,
    "a/000.tar": 300_000,
    "a/001.tar": 300_000,
    "b/000.tar": 400_000,
    "b/empty": 0,
    **{f"small/{n:03}": 100 + n for n in range(30)},
}
QUICK = Patience(link_tries=3, first_wait_s=0.001, longest_wait_s=0.01, hung_s=30, grace_s=5)


@dataclass
class Site:
    """One node: `source` holds the dataset, `target` shall."""

    folder: Path
    source: Path
    target: Path
    manifest: Manifest

    @classmethod
    def made(cls, folder: Path, sizes: Mapping[str, int] | None = None) -> Site:
        """Source and manifest; nothing is staged yet."""
        (folder / "etc").mkdir(parents=True)
        (folder / "etc/machine-id").write_text(MACHINE_ID + "\n")
        source = folder / "source"
        fill(source, sizes or SIZES)
        manifest = manifest_of(source, sizes or SIZES)
        site = cls(folder, source, folder / "node/demo", manifest)
        site.publish(manifest)
        return site

    def publish(self, manifest: Manifest) -> None:
        """The site's manifest is this one from now on."""
        self.manifest = manifest
        write_manifest(os.fspath(self.folder / "demo.jsonl"), manifest)

    def order(self, **changes: Any) -> StageOrder:
        """To stage it from its source."""
        order = StageOrder(
            name="demo",
            tier="local",
            path=os.fspath(self.target),
            manifest=os.fspath(self.folder / "demo.jsonl"),
            state_dir=os.fspath(self.folder / "state"),
            sources=(path_source(self.source),),
            streams=2,
            free_share=0.0,
            patience=QUICK,
            roots=Roots(etc=os.fspath(self.folder / "etc")),
        )
        return replace(order, **changes)

    def stage(self, **changes: Any) -> StageAnswer:
        """Do it."""
        return stage(self.order(**changes))

    def record(self) -> Record | None:
        """The node's, as it lies on disk."""
        return records.load(os.fspath(self.folder / "state"), "demo", "local")

    def bench(self) -> Bench:
        """The target as tests of a verify know it."""
        state_dir, etc = self.folder / "state", self.folder / "etc"
        return Bench(self.target, state_dir, etc, self.manifest, self.folder / "demo.jsonl")

    def truth(self) -> bool:
        """Whether the target holds the manifest's version, told without any record."""
        target = Target(os.fspath(self.target), manifest=self.manifest)
        return verify(target, 4).answer == "OK"

    def says_ready(self) -> bool:
        """Whether the node's record says ready."""
        record = self.record()
        return record is not None and record.state == "ready"

    def room_is_gone(self) -> bool:
        """Whether nothing of ours is left in the dataset's folder."""
        return not (self.target / ".slurm_io_stage").exists()


def path_source(folder: Path, label: str = "", readers_max: int = 0) -> SourceSpec:
    """A folder as a source."""
    return SourceSpec("path", os.fspath(folder), label or folder.name, readers_max=readers_max)

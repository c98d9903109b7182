"""One verify: opens the place, asks each level in turn, and says what was proven and what not.

Whatever can hang (a dead mount) hangs here: call this in a child that can be killed.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from slurm_io.filesystems.kinds import Kind
from slurm_io.staging.beneath import Folder
from slurm_io.staging.manifest.model import Header
from slurm_io.staging.verify import l0, l1
from slurm_io.staging.verify.expected import Expected, FromBoth, FromManifest, FromTable
from slurm_io.staging.verify.identity import (
    Roots,
    file_system_of,
    kind_at,
    mount_of,
    mounts_now,
    this_machine,
)
from slurm_io.staging.verify.model import Deadline, VerifyAnswer
from slurm_io.staging.verify.summing_up import SummingUp, of_missing_folder
from slurm_io.staging.verify.table import TableDamaged
from slurm_io.staging.verify.target import Target
from slurm_io.staging.verify.work import Findings, Options, Work

if TYPE_CHECKING:
    from slurm_io.staging.links import LinksInside

__all__ = ["Target", "here", "verify"]

PROBED_BEFORE_ALL = 100
"""Files that level 2 probes where level 4 reads all of them anyway: a first look."""


def verify(
    target: Target, level: int, budget_s: float | None = None, options: Options | None = None
) -> VerifyAnswer:
    """Verify down to `level` within `budget_s`.

    Raises nothing for what is wrong with the data; ValueError for a manifest whose paths leave the
    folder, or when `keep_proof` is asked for without a manifest.
    """
    if target.keep_proof and target.manifest is None:
        raise ValueError("a record needs the manifest")
    deadline = Deadline(budget_s)
    try:
        tree = Folder.at(target.path, watch=True)
    except OSError as error:
        return of_missing_folder(target, level, error, deadline)
    with tree, contextlib.ExitStack() as opened:
        return _Run(target, level, deadline, options or Options(), tree, opened).answer()


def here(target_roots: Roots, tree: Folder) -> tuple[l0.Here, Kind]:
    """Machine, file system and folder of an open tree."""
    mount = mount_of(tree.fd, mounts_now(target_roots))
    filesystem = None if mount is None else file_system_of(tree.fd, mount, target_roots)
    inode = os.fstat(tree.fd).st_ino
    return l0.Here(this_machine(target_roots), filesystem, inode), kind_at(mount)


class _Run:
    """One verify of an open tree."""

    def __init__(
        self,
        target: Target,
        level: int,
        deadline: Deadline,
        options: Options,
        tree: Folder,
        opened: contextlib.ExitStack,
    ) -> None:
        """`opened` closes what is opened on the way."""
        self._target = target
        self._level = level
        self._deadline = deadline
        self._options = options
        self._tree = tree
        self._opened = opened
        self._here, self._kind = here(target.roots, tree)
        self._record = l0.judge(target.record, target.record_problem, target.wanted, self._here)
        self._summing_up = SummingUp(target, level, deadline, options, self._here, self._record)
        self._manifest = self._from_manifest()

    def answer(self) -> VerifyAnswer:
        """The whole."""
        if self._level == 0 or (self._record.answer == "FAIL" and self._stops_at_record()):
            return self._summing_up.of_record()
        expected = self._expected()
        if expected is None:
            return self._summing_up.unknown(self._nothing_to_compare())
        try:
            return self._levels(expected)
        except TableDamaged as error:
            self._summing_up.damage = str(error)
        if self._manifest is None:
            return self._summing_up.unknown(f"{self._summing_up.damage}, and there is no manifest")
        return self._levels(self._manifest)

    def _nothing_to_compare(self) -> str:
        if self._target.manifest is None:
            return "there is neither a manifest nor a usable record to compare with"
        described = self._target.manifest.header.content_id
        return f"the manifest describes {described}, but {self._target.wanted} is wanted"

    def _stops_at_record(self) -> bool:
        """A wrong or unfinished version is overruled by a full hash only; bad files of the last
        verify are looked at again."""
        return self._level < 4 and not self._record.usable

    def _from_manifest(self) -> FromManifest | None:
        manifest = self._target.manifest
        if (
            manifest is None
            or self._level == 0
            or manifest.header.content_id != self._target.wanted
        ):
            return None
        return FromManifest(manifest.header, manifest.files)

    def _expected(self) -> Expected | None:
        table = self._target.table if self._record.usable else None
        if table is None or self._manifest is None:
            return self._manifest if table is None else FromTable(table)
        try:
            return FromBoth(self._manifest, table)
        except TableDamaged as error:
            self._summing_up.damage = str(error)
            return self._manifest

    def _levels(self, expected: Expected) -> VerifyAnswer:
        work = self._work(expected)
        reached = -1
        if l1.run(work):
            reached = self._deeper(work)
        return self._summing_up.of_levels(work, reached)

    def _deeper(self, work: Work) -> int:
        """The deepest level that was finished, 1 being done."""
        if self._level >= 2:
            from slurm_io.staging.verify import l2

            if not l2.run(work, PROBED_BEFORE_ALL if self._level == 4 else None):
                return 1
        if self._level == 3:
            from slurm_io.staging.verify import l3

            return 3 if l3.run(work) else 2
        if self._level == 4:
            from slurm_io.staging.verify import l4

            return 4 if l4.run(work, self._total_bytes()) else 2
        return min(self._level, 2)

    def _work(self, expected: Expected) -> Work:
        proof = None
        if self._target.keep_proof and isinstance(expected, FromManifest | FromBoth):
            from slurm_io.staging.verify.proof import Proof

            old = self._target.table if isinstance(expected, FromBoth) else None
            proof = Proof(expected, old)
        findings = Findings(self._options.listed_max, self._options.on_bad)
        return Work(
            path=self._target.path,
            tree=self._tree,
            kind=self._kind,
            expected=expected,
            deadline=self._deadline,
            options=self._options,
            findings=findings,
            proof=proof,
            journal=self._target.journal,
            links=self._links(expected),
        )

    def _links(self, expected: Expected) -> LinksInside | None:
        """The links that may stand for files, by the word of whoever made the manifest."""
        source = self._target.record if isinstance(expected, FromTable) else self._header()
        if source is None or source.links is None:
            return None
        from slurm_io.staging.links import LinksInside

        return self._opened.enter_context(LinksInside(self._tree.fd, self._target.path))

    def _header(self) -> Header | None:
        manifest = self._target.manifest
        return manifest.header if manifest is not None else None

    def _total_bytes(self) -> int:
        files = self._target.manifest.files if self._target.manifest is not None else ()
        return sum(entry.size_bytes or 0 for entry in files)

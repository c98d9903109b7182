"""One verify: opens the place, asks each level in turn, and says what was proven and what not.

Whatever can hang (a dead mount) hangs here: call this in a child that can be killed.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slurm_io.filesystems.kinds import Kind
from slurm_io.model import CheckAnswer
from slurm_io.staging.manifest.model import Manifest
from slurm_io.staging.manifest.paths import printable
from slurm_io.staging.record import Record
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
from slurm_io.staging.verify.model import HARMLESS, LEVELS, BadFile, Deadline, VerifyAnswer
from slurm_io.staging.verify.table import Table, TableDamaged
from slurm_io.staging.verify.tree import Tree
from slurm_io.staging.verify.work import Findings, Options, Work

if TYPE_CHECKING:
    from slurm_io.staging.verify.journal import Journal

BLIND = {
    0: l0.SEES,
    2: "level 2 reads both ends of a file and little between: a flipped bit there stays unseen",
    4: "level 4 compares with the manifest: whether that is the right one is for its signature",
    1: "level 1 reads no data: flipped bits, zeroed tails of right size, evicted files stay unseen",
    3: "level 3 reads a sample: a bad file outside of it stays unseen",
}
NO_RECORD = (
    "no usable record of this node: sizes were compared with the manifest's, so that other content "
    "of the same size stays unseen (verify --record keeps one)"
)


@dataclass(frozen=True)
class Target:
    """What is to be verified.

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
        tree = Tree(target.path)
    except OSError as error:
        return _not_there(target, level, error, deadline)
    with tree:
        return _Run(target, level, deadline, options or Options(), tree).answer()


def here(target_roots: Roots, tree: Tree) -> tuple[l0.Here, Kind]:
    """Machine, file system and folder of an open tree."""
    mount = mount_of(tree.root, mounts_now(target_roots))
    filesystem = None if mount is None else file_system_of(tree.root, mount, target_roots)
    inode = tree.inode
    return l0.Here(this_machine(target_roots), filesystem, inode), kind_at(mount)


class _Run:
    """One verify of an open tree."""

    def __init__(
        self, target: Target, level: int, deadline: Deadline, options: Options, tree: Tree
    ) -> None:
        self._target = target
        self._level = level
        self._deadline = deadline
        self._options = options
        self._tree = tree
        self._here, self._kind = here(target.roots, tree)
        self._record = l0.judge(target.record, target.record_problem, target.wanted, self._here)
        self._damage: str | None = None
        self._manifest = self._from_manifest()

    def answer(self) -> VerifyAnswer:
        """The whole."""
        if self._level == 0 or (self._record.answer == "FAIL" and self._stops_at_record()):
            return self._of_record()
        expected = self._expected()
        if expected is None:
            return self._unknown(self._nothing_to_compare())
        try:
            return self._levels(expected)
        except TableDamaged as error:
            self._damage = str(error)
        if self._manifest is None:
            return self._unknown(f"{self._damage}, and there is no manifest")
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
            self._damage = str(error)
            return self._manifest

    def _levels(self, expected: Expected) -> VerifyAnswer:
        work = self._work(expected)
        reached = -1
        if l1.run(work):
            reached = self._deeper(work)
        return self._sum_up(work, reached)

    def _deeper(self, work: Work) -> int:
        """The deepest level that was finished, 1 being done."""
        if self._level >= 2:
            from slurm_io.staging.verify import l2

            if not l2.run(work):
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
        )

    def _total_bytes(self) -> int:
        files = self._target.manifest.files if self._target.manifest is not None else ()
        return sum(entry.size_bytes or 0 for entry in files)

    def _sum_up(self, work: Work, reached: int) -> VerifyAnswer:
        failed = work.findings.failed
        bad = work.findings.close()
        answer: CheckAnswer = "OK"
        if failed or (self._record.wrong_version and reached < 4):
            answer = "FAIL"
        elif any(each.why not in self._fine() for each in bad):
            answer = "DEGRADED"
        elif reached < self._level:
            answer = "UNKNOWN"
        return VerifyAnswer(
            answer=answer,
            asked_level=self._level,
            level=reached,
            text=self._words(work, answer, reached, bad),
            content_id=self._target.wanted or self._record_id(),
            bad_files=bad,
            bad_count=sum(work.findings.counts.values()),
            counts=dict(work.findings.counts),
            not_looked_at=self._blind_spots(work, reached),
            files=work.expected.count,
            files_stated=work.files_stated,
            files_probed=work.files_probed,
            files_hashed=work.files_hashed,
            bytes_read=work.bytes_read,
            bytes_from_cache=work.bytes_from_cache,
            debris_bytes=work.findings.debris_bytes,
            seconds=self._deadline.spent_s(),
            used_record=work.expected.stamped,
            record_problem=self._damage or self._record.problem,
            wrong_version=self._record.wrong_version,
            next_cursor=work.next_cursor,
            here=self._here,
            proof=work.proof,
        )

    def _fine(self) -> tuple[str, ...]:
        return ("extra",) if self._options.extra_is_fine else ()

    def _words(
        self, work: Work, answer: CheckAnswer, reached: int, bad: tuple[BadFile, ...]
    ) -> str:
        count = work.expected.count
        if bad:
            counts = ", ".join(f"{n} {why}" for why, n in work.findings.counts.most_common())
            worst = min(bad, key=lambda each: each.why in HARMLESS)
            detail = f": {worst.detail}" if worst.detail else ""
            return (
                f"{counts} ({count} files expected); "
                f"first {printable(worst.path)} {worst.why}{detail}"
            )
        if answer == "FAIL":
            return self._record.text
        done = LEVELS.get(reached, "nothing")
        if answer == "UNKNOWN":
            return f"{count} files, none found bad, but only level {reached} ({done}) was finished"
        return f"{count} files, none bad at level {reached} ({done}); {self._record.text}"

    def _blind_spots(self, work: Work, reached: int) -> tuple[str, ...]:
        # A whole hash sees what probes and samples could not.
        sampled = ("level 2 looked", "level 3 hashed") if reached == 4 else ()
        notes = [note for note in work.notes if not note.startswith(sampled)]
        if not work.expected.stamped and reached < 4:
            notes.insert(0, NO_RECORD)
        if reached in BLIND:
            notes.insert(0, BLIND[reached])
        manifest = self._target.manifest
        if manifest is not None and manifest.header.missing_count:
            notes.append(
                f"{manifest.header.missing_count} files that its builder could not read are not in "
                "the manifest"
            )
        if work.bytes_from_cache:
            notes.append(
                f"{work.bytes_from_cache} bytes came from the page cache: they say nothing of the "
                "medium"
            )
        if reached < self._level:
            notes.append(f"level {self._level} ({LEVELS[self._level]}) was not finished")
        return tuple(dict.fromkeys(notes))

    def _record_id(self) -> str | None:
        usable = self._record.usable and self._target.record is not None
        return self._target.record.content_id if usable and self._target.record else None

    def _of_record(self) -> VerifyAnswer:
        notes = [BLIND[0]]
        if self._level > 0:
            notes.append(f"levels 1 to {self._level}: the record already says no")
        return self._bare(self._record.answer, self._record.text, 0, notes)

    def _unknown(self, why: str) -> VerifyAnswer:
        record = self._record.text if self._record.answer == "FAIL" else ""
        answer: CheckAnswer = "FAIL" if record else "UNKNOWN"
        return self._bare(answer, record or why, 0 if record else -1, [f"all files: {why}"])

    def _bare(self, answer: CheckAnswer, text: str, reached: int, notes: list[str]) -> VerifyAnswer:
        record = self._target.record
        return VerifyAnswer(
            answer=answer,
            asked_level=self._level,
            level=reached,
            text=text,
            content_id=self._target.wanted or self._record_id(),
            not_looked_at=tuple(notes),
            files=record.files if record is not None and self._record.usable else 0,
            seconds=self._deadline.spent_s(),
            used_record=self._record.usable,
            record_problem=self._damage or self._record.problem,
            wrong_version=self._record.wrong_version,
            here=self._here,
        )


def _not_there(target: Target, level: int, error: OSError, deadline: Deadline) -> VerifyAnswer:
    """The dataset's own folder cannot be opened."""
    place = printable(target.path)
    missing = isinstance(error, FileNotFoundError | NotADirectoryError) or error.errno in (
        errno.ELOOP,
        errno.ENAMETOOLONG,
    )
    sure = missing or isinstance(error, PermissionError)
    what = "is not there" if missing else f"cannot be opened: {error.strerror or error}"
    return VerifyAnswer(
        answer="FAIL" if sure else "UNKNOWN",
        asked_level=level,
        level=0 if sure else -1,
        text=f"the folder {place} {what}",
        content_id=target.wanted,
        not_looked_at=("all files: the folder cannot be opened",),
        seconds=deadline.spent_s(),
        missing=missing,
    )

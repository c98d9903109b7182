"""From what the levels of one verify found to its answer: the verdict, the words, the blind spots.

Standard library only: the prolog loads it.
"""

from __future__ import annotations

import errno

from slurm_io.model import CheckAnswer
from slurm_io.staging.manifest.paths import printable
from slurm_io.staging.verify import l0
from slurm_io.staging.verify.model import HARMLESS, LEVELS, BadFile, Deadline, VerifyAnswer
from slurm_io.staging.verify.target import Target
from slurm_io.staging.verify.work import Options, Work

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


class SummingUp:
    """Makes the answer of one verify. `damage`: why the record's table cannot be used."""

    def __init__(
        self,
        target: Target,
        level: int,
        deadline: Deadline,
        options: Options,
        here: l0.Here,
        record: l0.RecordAnswer,
    ) -> None:
        self._target = target
        self._level = level
        self._deadline = deadline
        self._options = options
        self._here = here
        self._record = record
        self.damage: str | None = None

    def of_levels(self, work: Work, reached: int) -> VerifyAnswer:
        """After level 1 and what followed; `reached` is the deepest that was finished."""
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
            record_problem=self.damage or self._record.problem,
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

    def of_record(self) -> VerifyAnswer:
        """The record says it all."""
        notes = [BLIND[0]]
        if self._level > 0:
            notes.append(f"levels 1 to {self._level}: the record already says no")
        return self._bare(self._record.answer, self._record.text, 0, notes)

    def unknown(self, why: str) -> VerifyAnswer:
        """Nothing could be compared."""
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
            record_problem=self.damage or self._record.problem,
            wrong_version=self._record.wrong_version,
            here=self._here,
        )


def of_missing_folder(
    target: Target, level: int, error: OSError, deadline: Deadline
) -> VerifyAnswer:
    """The dataset's own folder cannot be opened: `error` says why."""
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

"""What a stage says at its end: one place for all its words."""

from __future__ import annotations

from dataclasses import replace

from slurm_io.staging.manifest.paths import decode_path, printable
from slurm_io.staging.manifest.summary import human_bytes
from slurm_io.staging.record import Record
from slurm_io.staging.stage.book import FAILURES_KEPT, Book
from slurm_io.staging.stage.display import duration
from slurm_io.staging.stage.draft import Draft
from slurm_io.staging.stage.model import Failure, Phase, StageAnswer, StagePlan
from slurm_io.staging.verify.model import VerifyAnswer

EXTRA_SHOWN = 100


def timed(answer: StageAnswer, total_s: float, copy_s: float, verify_s: float) -> StageAnswer:
    """With its times; `copy_s` holds the hashes of copied files, `verify_s` all others."""
    return replace(answer, seconds=total_s, copy_s=copy_s, verify_s=verify_s)


def nothing_to_do(found: Draft) -> StageAnswer:
    """It was ready before."""
    text = f"{found.expected.count} files were proven here before and stand as they were"
    return StageAnswer("ready", text, found.content_id)


def impossible(found: Draft, plan: StagePlan) -> StageAnswer:
    """Nothing was changed."""
    if plan.problem:
        text = plan.problem
    elif plan.short_bytes:
        text = (
            f"it does not fit: {human_bytes(plan.short_bytes)} are missing "
            f"({human_bytes(plan.copy_bytes)} to copy, {human_bytes(plan.free_bytes)} free, "
            f"{found.order.free_share:.0%} of the file system kept free)"
        )
    else:
        text = f"it does not fit: {plan.short_inodes} inodes are missing"
    return StageAnswer("failed", f"nothing was changed: {text}", found.content_id, notes=plan.notes)


def stopped(found: Draft, book: Book) -> StageAnswer:
    """Somebody said stop."""
    text = "stopped before its end: the same command goes on where it was"
    return _of("copying", text, found, book)


def not_copied(found: Draft, book: Book, ended_by: str | None) -> StageAnswer:
    """Some files could not be brought."""
    first = book.failures[0] if book.failures else None
    which = f"{printable(first.path)}: {first.text}" if first is not None else ""
    if ended_by is not None:
        text = f"ended by {ended_by}; what is copied stays, the same command goes on"
    else:
        text = f"{book.failed_count} files could not be copied, first {which}"
    return _of("failed", text, found, book)


def not_recorded(found: Draft, book: Book, why: str) -> StageAnswer:
    """All is copied, but the node's record could not be written."""
    return _of("failed", f"copied, but {why}", found, book)


def verified(
    found: Draft, book: Book, verified: VerifyAnswer, record: Record, only_sizes: bool
) -> StageAnswer:
    """After the last verify."""
    notes = (*_notes(book), *verified.not_looked_at)
    if record.state == "ready":
        text = f"{verified.files} files verified at level {record.level} or deeper"
        if only_sizes:
            text += ", those without a digest by their sizes only"
        return replace(_of("ready", text, found, book), notes=notes)
    if record.state == "degraded":
        return replace(_of("degraded", _extra_words(found, verified), found, book), notes=notes)
    if only_sizes:
        text = (
            "copied, but files without a digest in the manifest were compared by their sizes only: "
            "not called ready without --accept-sizes"
        )
        return replace(_of("verifying", text, found, book), notes=notes)
    bad = tuple(
        Failure(each.path, f"{each.why} {each.detail}", "target") for each in verified.repair
    )
    answer = _of("failed", f"the last verify says no: {verified.text}", found, book)
    return replace(answer, failed=(*answer.failed, *bad)[:FAILURES_KEPT], notes=notes)


def _extra_words(found: Draft, verified: VerifyAnswer) -> str:
    counts = ", ".join(f"{count} {why}" for why, count in sorted(verified.counts.items()))
    ways = []
    if found.survey.extra and not found.order.delete_extra:
        ways.append("--delete-extra removes extra files")
    if "debris" in verified.counts:
        ways.append(
            "a stage or dataset clean removes debris once nobody touched it for "
            f"{duration(found.order.debris_age_s)} (stage.debris_age_s)"
        )
    return (
        f"all {found.expected.count} files are right, but the folder holds what this version does "
        f"not have ({counts})" + (f": {'; '.join(ways)}" if ways else "")
    )


def _of(state: Phase, text: str, found: Draft, book: Book) -> StageAnswer:
    extra = () if found.order.delete_extra else found.survey.extra[:EXTRA_SHOWN]
    return StageAnswer(
        state=state,
        text=text,
        content_id=found.content_id,
        copied_files=book.copied_files,
        copied_bytes=book.copied_bytes,
        repaired_files=book.repaired_files,
        failed=tuple(book.failures),
        by_source=dict(book.by_source),
        not_done=tuple(f"extra: {printable(decode_path(raw))}" for raw in extra),
        notes=_notes(book),
    )


def _notes(book: Book) -> tuple[str, ...]:
    if not book.bytes_from_cache:
        return tuple(book.notes)
    text = (
        f"{human_bytes(book.bytes_from_cache)} were hashed from memory, because this file system "
        "cannot be read past its cache: they say nothing of the medium"
    )
    return (*book.notes, text)

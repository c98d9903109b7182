"""Plans and answers of a stage for people."""

from __future__ import annotations

from slurm_io.staging.manifest.paths import printable
from slurm_io.staging.manifest.summary import human_bytes
from slurm_io.staging.stage.display import duration
from slurm_io.staging.stage.model import StageAnswer, StagePlan

SHOWN = 20


def plan_text(plan: StagePlan) -> list[str]:
    """Lines of ``--dry-run``."""
    name = "" if plan.name == plan.path else f"{plan.name}@{plan.tier} "
    lines = [f"dataset   {name}in {printable(plan.path)}"]
    lines.append(f"version   {plan.content_id}")
    lines += [f"source    {source.label} ({source.kind})" for source in plan.sources]
    kept = human_bytes(plan.kept_bytes)
    how = " compared by size only" if plan.kept_level < 2 else " proven here before"
    lines.append(f"kept      {plan.kept_files} files, {kept}" + how * bool(plan.kept_files))
    if plan.to_hash:
        lines.append(f"hash      {plan.to_hash} files, {human_bytes(plan.hash_bytes)}, then decide")
    lines.append(f"copy      {plan.to_copy} files, {human_bytes(plan.copy_bytes)}")
    lines.append(_space(plan))
    lines.append(_time(plan))
    lines += [f"extra     {printable(path)}" for path in plan.extra[:SHOWN]]
    if plan.extra_count > SHOWN:
        lines.append(f"          … {plan.extra_count - SHOWN} more")
    lines += [f"note      {note}" for note in plan.notes]
    if plan.problem:
        lines.append(f"PROBLEM   {plan.problem}")
    return lines


def answer_text(answer: StageAnswer) -> list[str]:
    """Lines at a stage's end."""
    lines = [f"{answer.state:<9} {answer.text}", f"version   {answer.content_id}"]
    if answer.copied_files:
        lines.append(_copied(answer))
        lines += [
            f"from      {label}: {human_bytes(count)}" for label, count in answer.by_source.items()
        ]
    for failure in answer.failed[:SHOWN]:
        lines.append(f"  {failure.whose:<8} {printable(failure.path)}  {failure.text}")
    if len(answer.failed) > SHOWN:
        lines.append(f"  … {len(answer.failed) - SHOWN} more: --json")
    lines += [f"not done  {text}" for text in answer.not_done[:SHOWN]]
    lines += [f"note      {note}" for note in answer.notes]
    return lines


def _copied(answer: StageAnswer) -> str:
    text = f"copied    {answer.copied_files} files, {human_bytes(answer.copied_bytes)}"
    if answer.repaired_files:
        text += f", {answer.repaired_files} of them in place of bad ones"
    rate = answer.copied_bytes / answer.copy_s if answer.copy_s > 0 else 0
    return f"{text}, in {duration(answer.copy_s)} ({human_bytes(int(rate))}/s, hashed)"


def _space(plan: StagePlan) -> str:
    text = f"space     {human_bytes(plan.free_bytes)} free"
    if plan.debris_bytes:
        text += f", and {human_bytes(plan.debris_bytes)} of debris that goes first"
    if plan.short_bytes:
        text += f": {human_bytes(plan.short_bytes)} are MISSING"
    if plan.short_inodes:
        text += f": {plan.short_inodes} inodes are MISSING"
    return text


def _time(plan: StagePlan) -> str:
    if plan.eta_s is None or plan.rate_bytes_s is None:
        return "time      not known: this node has no record of an earlier copy"
    rate = human_bytes(int(plan.rate_bytes_s))
    return f"time      about {duration(plan.eta_s)} at {rate}/s, as the last copy"

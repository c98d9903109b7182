"""Step 9: where the training went on, and what work was lost."""

from __future__ import annotations

from slurm_io.reservation.swap.step import Case

NO_CHECKPOINT = "which step the last checkpoint held is not known here"


class Checkpoint:
    """Compares the last step before with the first one after. Reads only."""

    name = "checkpoint"

    def is_done(self, case: Case) -> str | None:
        """No job, or told already."""
        facts = case.facts
        if facts.job is None or facts.job_ended is not None or facts.lacking > 1:
            return "nothing went on"
        return None if facts.lost_steps is None else _said(case)

    def would(self, case: Case) -> str:
        """What would be looked at."""
        return "compare the first step after the restart with the last one before"

    def do(self, case: Case) -> str:
        """A training that starts from its first step has found no checkpoint: people hear of it."""
        facts = case.facts
        before, after = facts.step_before, facts.step_after
        if after is None or before is None:
            missing = "after" if after is None else "before"
            why = facts.lost_why or "the job's output shows none"
            case.learn(lost_steps=None, lost_why=f"no step {missing} the failure is known: {why}")
            return _said(case)
        lost = max(0, before - after + 1)
        case.learn(lost_steps=lost, lost_why=None)
        if after <= 1 < before:
            case.note(f"the training began at step {after} again: it found no checkpoint")
        return _said(case)

    def undo(self, case: Case) -> str | None:
        """It changed nothing."""
        return None


def _said(case: Case) -> str:
    facts = case.facts
    if facts.lost_steps is None:
        return f"lost work is not known: {facts.lost_why}"
    return (
        f"went on at step {facts.step_after}, was at {facts.step_before}: {facts.lost_steps} steps "
        f"done again ({NO_CHECKPOINT})"
    )

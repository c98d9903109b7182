"""Steps 10 and 11: filler goes on, what comes next is said, and the times are kept."""

from __future__ import annotations

from slurm_io.errors import SlurmIoError
from slurm_io.reservation.history import DONE, History, HistoryRecord
from slurm_io.reservation.swap.step import Case
from slurm_io.reservation.swap.steps.clear import release_filler


class Finish:
    """Releases filler, says how the next spare is made."""

    name = "refill"

    def is_done(self, case: Case) -> str | None:
        """Never: it is short, and may be run again."""
        return None

    def would(self, case: Case) -> str:
        """What would come."""
        return "release filler that was held; tell how the next spare is made"

    def do(self, case: Case) -> str:
        """What a person, or the watch, does next."""
        released = release_filler(case)
        words = [] if released is None else [released]
        bad = case.facts.bad
        if case.wish.kind == "drill":
            return "; ".join([*words, "the drill gives all nodes back"])
        words.append(
            f"when {bad} is mended: scontrol update NodeName={bad} State=RESUME, then slurm-io "
            f"spare add {case.wish.reservation} {bad} (reads all its data, stages what is wrong)"
        )
        return "; ".join(words)

    def undo(self, case: Case) -> str | None:
        """Nothing to take back."""
        return None


class Record:
    """Keeps the seconds of each phase, for the estimate."""

    name = "record"

    def is_done(self, case: Case) -> str | None:
        """Kept once."""
        return "kept" if case.facts.recorded else None

    def would(self, case: Case) -> str:
        """Where to."""
        return "append the seconds of each phase to the history"

    def do(self, case: Case) -> str:
        """A history that cannot be written spoils no swap."""
        try:
            keep(case, DONE if case.facts.first_step_at_s else case.facts.job_ended or "no job")
        except SlurmIoError as error:
            case.note(f"not kept in the history: {error}")
            return f"not kept: {error}"
        case.learn(recorded=True)
        phases = ", ".join(f"{name} {took_s:.1f} s" for name, took_s in case.facts.phases.items())
        return phases or "no phase was timed"

    def undo(self, case: Case) -> str | None:
        """What happened, happened."""
        return None


def keep(case: Case, outcome: str) -> None:
    """Append this swap to the history. Raises HostError."""
    facts = case.facts
    record = HistoryRecord(
        kind=case.wish.kind,
        at_s=facts.failed_at_s or facts.began_s,
        bad=facts.bad,
        spare=facts.spare,
        job=facts.job,
        phases=facts.phases,
        outcome=outcome,
    )
    History(case.world.config.state_dir, case.wish.reservation).append(record)

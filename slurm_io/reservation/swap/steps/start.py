"""Step 8: the job starts on the spare, and makes its first step."""

from __future__ import annotations

from slurm_io.reservation.pool import is_on_nodes, jobs_on
from slurm_io.reservation.swap.looks import job_words
from slurm_io.reservation.swap.model import GaveUp, NextSpare
from slurm_io.reservation.swap.step import Case
from slurm_io.reservation.swap.steps.clear import check_usable
from slurm_io.reservation.swap.steps.requeue import job_now
from slurm_io.slurm.infos import JobInfo


class Start:
    """Watches; changes nothing."""

    name = "start"

    def is_done(self, case: Case) -> str | None:
        """Nothing to watch, or the first step was seen."""
        facts = case.facts
        if facts.job is None:
            return "no job to watch"
        if facts.job_ended is not None:
            return f"job {facts.job}: {facts.job_ended}"
        if facts.lacking > 1:
            return f"job {facts.job} waits: {facts.lacking - 1} more of its nodes must be swapped"
        if facts.first_step_at_s is not None:
            return f"job {facts.job} runs: {facts.first_step_by}"
        return None

    def would(self, case: Case) -> str:
        """For how long."""
        limit_s = case.world.config.spares.start_s
        return (
            f"watch job {case.facts.job} to its first step, at most {limit_s:.0f} s, else roll back"
        )

    def do(self, case: Case) -> str:
        """Raises NextSpare when the spare fails, GaveUp at the deadline."""
        limit_s = case.world.config.spares.start_s
        began_s = case.world.clock.now_s()

        def is_over() -> bool:
            job = job_now(case)
            return job is None or (_runs(case, job) and _has_stepped(case, job))

        if not case.wait(is_over, limit_s):
            if case.facts.running_at_s is not None:
                said = f"RUNNING, but no step within {limit_s:.0f} s"
                case.learn(said, is_late=True, first_step_by=said)
                return f"job {case.facts.job}: {said}; it runs, so nothing is taken back"
            raise GaveUp(
                f"job {case.facts.job} made no step within {limit_s:.0f} s (spares.start_s)"
            )
        if case.facts.job_ended is not None:
            return f"job {case.facts.job}: {case.facts.job_ended}"
        job = job_now(case)
        where = "" if job is None else f" on {','.join(job.nodes)}"
        took_s = case.world.clock.now_s() - began_s
        return f"job {case.facts.job} runs{where}: {case.facts.first_step_by} after {took_s:.0f} s"

    def undo(self, case: Case) -> str | None:
        """It changed nothing."""
        return None


def _runs(case: Case, job: JobInfo) -> bool:
    """Whether its script runs: the prolog passed where Slurm waits for it (PrologFlags=Alloc)."""
    facts = case.facts
    if job.state != "RUNNING" or "CONFIGURING" in job.flags or "COMPLETING" in job.flags:
        if facts.running_at_s is not None and not is_on_nodes(job):
            case.learn("it is back in the queue", running_at_s=None)
        if not facts.seen_waiting:
            case.learn("it waits", seen_waiting=True)
        _check_waiting(case, job)
        return False
    if facts.bad in job.nodes:
        raise GaveUp(f"{job_words(job)} runs on {facts.bad}, which was to be left out")
    if facts.running_at_s is None:
        _begins(case, job)
        if facts.spare is not None and facts.spare not in job.nodes:
            case.note(
                f"Slurm chose other nodes than {facts.spare}: {','.join(job.nodes)}; "
                "the prolog's checks stand for them"
            )
    return True


def _begins(case: Case, job: JobInfo) -> None:
    """Times it: the prolog's own time is known only when the job was seen before it ran."""
    now_s, since_s = case.world.clock.now_s(), _waits_since_s(case)
    started_s = min(now_s, float(job.start_s or now_s))
    case.spent("requeue", max(0.0, started_s - since_s))
    if case.facts.seen_waiting:
        case.spent("prolog", now_s - started_s)
    running_at_s = now_s if case.facts.seen_waiting else started_s
    case.learn(f"runs on {','.join(job.nodes)}", running_at_s=running_at_s)


def _waits_since_s(case: Case) -> float:
    """Our requeue. Slurm's own may be long before it; the wait then begins where the phases told
    so far end, or a minute of grace would count twice."""
    facts = case.facts
    if facts.requeued_at_s is not None:
        return facts.requeued_at_s
    if facts.failed_at_s is None:
        return facts.began_s
    return max(facts.began_s, facts.failed_at_s + sum(facts.phases.values()))


def _check_waiting(case: Case, job: JobInfo) -> None:
    """Raises NextSpare when the spare was drained (a failed prolog does so), or taken by others."""
    if case.facts.spare is None or is_on_nodes(job):
        return
    pool = case.world.read_pool()
    check_usable(pool, case.facts.spare)
    others = [each for each in jobs_on(pool, case.facts.spare) if each.job_id != job.job_id]
    if others:
        raise NextSpare(f"job {others[0].job_id} started there meanwhile")
    if job.is_held:
        raise GaveUp(f"{job_words(job)} is held ({job.reason}): scontrol release {job.job_id}")


def _has_stepped(case: Case, job: JobInfo) -> bool:
    """A step in the job's own output; where that cannot be read, that it runs for a while."""
    facts, now_s = case.facts, case.world.clock.now_s()
    assert facts.running_at_s is not None
    seen = case.world.read_steps(job)
    if seen.last is not None and (seen.run, seen.last) != (facts.run_before, facts.step_before):
        is_new = (seen.run, seen.first) != (facts.run_before, facts.first_before)
        after = seen.first if is_new else seen.last
        case.spent("first_step", now_s - facts.running_at_s)
        case.learn(
            f"step {seen.last}",
            first_step_at_s=now_s,
            first_step_by=f"its output shows step {seen.last}",
            step_after=after,
        )
        return True
    quiet_s = case.world.quiet_start_s
    # An output that never showed a step, or not in a form that is known, will show none.
    why = seen.why or ("its output shows none" if facts.step_before is None else "")
    if why and now_s - facts.running_at_s >= quiet_s:
        said = f"RUNNING for {quiet_s:.0f} s; no step seen, {why}"
        case.learn(said, first_step_at_s=now_s, first_step_by=said)
        return True
    return False

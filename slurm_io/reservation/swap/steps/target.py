"""Step 1b: which job must go on, and the reservation as it is before anything is changed."""

from __future__ import annotations

from slurm_io.errors import UsageError
from slurm_io.reservation.model import Pool
from slurm_io.reservation.pool import is_on_nodes, is_waiting
from slurm_io.reservation.swap.looks import job_words
from slurm_io.reservation.swap.model import Declined
from slurm_io.reservation.swap.step import Case
from slurm_io.slurm.infos import JobInfo, ReservationInfo

SETTLE_S = 30.0


class Target:
    """Finds the job; refuses one that a requeue would end or hit more than meant."""

    name = "job"

    def is_done(self, case: Case) -> str | None:
        """Once the reservation was read, that is what later changes are compared with."""
        return _said(case) if case.facts.before is not None else None

    def would(self, case: Case) -> str:
        """The same, without waiting."""
        return self._find(case)

    def do(self, case: Case) -> str:
        """Read only. A job that Slurm is requeuing at this moment is waited for a little."""

        def is_settled() -> bool:
            job = _job_of(case, case.world.read_pool())
            return job is None or not is_on_nodes(job) or not _comes_apart(job)

        case.wait(is_settled, SETTLE_S)
        return self._find(case)

    def _find(self, case: Case) -> str:
        pool = case.world.read_pool()
        job = _job_of(case, pool)
        if job is not None:
            refuse_job(job)
        bad = case.facts.bad
        is_whole = job is not None and is_on_nodes(job) and not _comes_apart(job)
        former = job.nodes if job is not None and is_whole else case.facts.former
        seen = None if job is None else case.world.read_steps(job)
        case.learn(
            before=kept(pool.reservation),
            job=None if job is None else job.job_id,
            job_restarts=None if job is None else job.restarts,
            former=former,
            seats=None if job is None else job.node_count or len(former) or None,
            pins=None if job is None else job.pinned_to,
            run_before=None if seen is None else seen.run,
            first_before=None if seen is None else seen.first,
            step_before=None if seen is None else seen.last,
            lost_why=None if seen is None else seen.why or None,
        )
        if job is not None and is_on_nodes(job) and bad not in job.nodes:
            case.note(f"{job_words(job)} runs on {','.join(job.nodes)} already, without {bad}")
        return _said(case)

    def undo(self, case: Case) -> str | None:
        """It changed nothing."""
        return None


def kept(found: ReservationInfo) -> dict[str, object]:
    """What a reservation is told apart by, as the journal keeps it."""
    return {
        "name": found.name,
        "nodes": list(found.nodes),
        "start_s": found.start_s,
        "flags": list(found.flags),
        "users": list(found.users),
        "accounts": list(found.accounts),
    }


def refuse_job(job: JobInfo) -> None:
    """Raises Declined for a job that this cannot requeue safely."""
    if job.array is not None or job.waiting_tasks:
        raise Declined(
            f"{job_words(job)} is of a job array: a requeue by number can hit other tasks, so only "
            "its owner should requeue it; `spare swap` handles single batch jobs"
        )
    if job.het is not None:
        raise Declined(
            f"{job_words(job)} is part of a heterogeneous job, whose parts stop and start together:"
            " requeue the whole by hand; `spare swap` handles single batch jobs"
        )
    if is_on_nodes(job) and (job.batch is False or job.may_requeue is False):
        raise Declined(
            f"{job_words(job)} cannot be requeued (salloc, srun or --no-requeue): a swap would end "
            "it for good; its owner must save and submit it again"
        )


def _job_of(case: Case, pool: Pool) -> JobInfo | None:
    """The job that was named; else the one on the bad node, or the one that waits to start again.
    None when the reservation has none of either."""
    if case.wish.job is not None:
        job = case.world.slurm.job(case.wish.job)
        if job.job_id not in {each.job_id for each in pool.protected}:
            raise UsageError(
                f"{job_words(job)} is no protected job of reservation {pool.name}: it is filler, "
                "ended, or belongs elsewhere"
            )
        return job
    waiting = [job for job in pool.protected if is_waiting(job)]
    running = [job for job in pool.protected if is_on_nodes(job)]
    for some in (
        [job for job in running if case.facts.bad in job.nodes],
        [job for job in waiting if job.restarts or case.facts.bad in job.pinned_to],
        [job for job in running if _comes_apart(job)],
        waiting,
        [job for job in running if job.restarts],
    ):
        if len(some) == 1:
            return some[0]
        if some:
            names = ", ".join(job.job_id for job in some[:8])
            raise UsageError(f"several jobs may be meant ({names}): name one with --job")
    return None


def _comes_apart(job: JobInfo) -> bool:
    """While Slurm requeues a job whose node went down, it takes the nodes off its list one by one,
    and calls it RUNNING at first: what is left does not tell where it ran."""
    is_ending = job.state == "COMPLETING" or "COMPLETING" in job.flags
    return is_ending or len(job.nodes) < (job.node_count or 1)


def _said(case: Case) -> str:
    facts = case.facts
    if facts.job is None:
        return "no job waits for this node: only the reservation changes"
    where = f", ran on {','.join(facts.former)}" if facts.former else ""
    return f"job {facts.job} ({facts.seats} nodes{where})"

"""Step 5: the spare is cleared of filler. Any other job on it means: not this spare."""

from __future__ import annotations

from slurm_io.errors import SlurmNotFound, SlurmRefused, SlurmUnreachable
from slurm_io.reservation.model import Pool
from slurm_io.reservation.pool import jobs_on
from slurm_io.reservation.swap.looks import is_unheard, unusable_words
from slurm_io.reservation.swap.model import NextSpare
from slurm_io.reservation.swap.step import Case
from slurm_io.slurm.infos import JobInfo


class Clear:
    """Requeues (and holds) or cancels filler, and waits until it is gone."""

    name = "clear"

    def is_done(self, case: Case) -> str | None:
        """Nothing but the job itself is on the spare, and Slurm would start it there."""
        if case.facts.spare is None:
            return "no spare to clear"
        pool = case.world.read_pool()
        check_usable(pool, case.facts.spare)
        if _others(case, pool):
            return None
        return f"nothing runs on {case.facts.spare}"

    def would(self, case: Case) -> str:
        """Which jobs would give way, and how."""
        pool = case.world.read_pool()
        jobs = ", ".join(job.job_id for job in _others(case, pool))
        verb = "cancel" if pool.settings.filler_end == "cancel" else "requeue (and hold)"
        return f"{verb} filler job {jobs} on {case.facts.spare}"

    def do(self, case: Case) -> str:
        """Raises NextSpare for a job that does not give way, or not in time."""
        began_s = case.world.clock.now_s()
        ended: list[str] = []

        def is_clear() -> bool:
            pool = case.world.read_pool()
            assert case.facts.spare is not None
            check_usable(pool, case.facts.spare)
            others = _others(case, pool)
            for job in others:
                _refuse(job, pool)
                if job.job_id not in ended and job.state in ("RUNNING", "SUSPENDED", "CONFIGURING"):
                    _end(case, job, pool.settings.filler_end)
                    ended.append(job.job_id)
            return not others

        limit_s = case.world.config.spares.clear_s
        if not case.wait(is_clear, limit_s):
            raise NextSpare(f"is not clear of job {', '.join(ended)} within {limit_s:.0f} s")
        case.spent("clear", case.world.clock.now_s() - began_s)
        return f"filler job {', '.join(ended)} left {case.facts.spare}"

    def undo(self, case: Case) -> str | None:
        """Filler that we hold goes on."""
        return release_filler(case)


def release_filler(case: Case) -> str | None:
    """Release what we hold and is held still; None when there is none."""
    released = []
    for number in case.facts.held:
        try:
            job = case.world.slurm.job(number)
            if job.is_held:
                case.intend(f"release filler job {number}")
                case.world.slurm.release(number)
                released.append(number)
        except (SlurmNotFound, SlurmRefused):
            continue  # its user cancelled it meanwhile
    if case.facts.held:
        case.learn(held=())
    return f"filler job {', '.join(released)} waits for a node again" if released else None


def check_usable(pool: Pool, spare: str) -> None:
    """Raises NextSpare when somebody drained the spare meanwhile, or it failed."""
    if is_unheard(pool.nodes[spare]):
        raise SlurmUnreachable(f"slurmctld has not heard from {spare} since it started")
    words = unusable_words(pool.nodes[spare])
    if words:
        reason = pool.nodes[spare].reason
        why = f" ({reason.text[:120]})" if reason is not None else ""
        raise NextSpare(f"Slurm says {'+'.join(words)} by now{why}")


def _others(case: Case, pool: Pool) -> tuple[JobInfo, ...]:
    assert case.facts.spare is not None
    jobs = jobs_on(pool, case.facts.spare)
    return tuple(job for job in jobs if job.job_id != case.facts.job)


def _refuse(job: JobInfo, pool: Pool) -> None:
    if job.job_id not in {each.job_id for each in pool.filler}:
        raise NextSpare(f"runs job {job.job_id}, which does not give way")
    cannot = job.batch is False or job.may_requeue is False
    if pool.settings.filler_end == "requeue" and cannot:
        raise NextSpare(f"runs filler job {job.job_id}, which cannot be requeued")


def _end(case: Case, job: JobInfo, how: str) -> None:
    """Held, so that it does not come back to the spare before the job starts there."""
    if how == "cancel":
        case.intend(f"cancel filler job {job.job_id}", ended=(*case.facts.ended, job.job_id))
        case.world.slurm.cancel(job.job_id)
        return
    case.intend(f"requeue and hold filler job {job.job_id}", held=(*case.facts.held, job.job_id))
    case.world.slurm.requeue(job.job_id, hold=True)

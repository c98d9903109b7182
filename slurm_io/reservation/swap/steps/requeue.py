"""Step 7: the job waits for its start, with nothing in its way."""

from __future__ import annotations

from slurm_io.errors import SlurmNotFound
from slurm_io.reservation.pool import is_on_nodes, is_waiting
from slurm_io.reservation.swap.journal import excluded_for
from slurm_io.reservation.swap.looks import has_left, job_words
from slurm_io.reservation.swap.model import GaveUp
from slurm_io.reservation.swap.step import Case
from slurm_io.reservation.swap.steps.target import refuse_job
from slurm_io.slurm.base import JobChange
from slurm_io.slurm.infos import JobInfo

SOON_S = 10.0
"""A start that is nearer than this is left as Slurm set it."""
HELD = "held"


class Requeue:
    """Requeues the job unless Slurm did, takes pins on the bad node away, and the delay."""

    name = "requeue"

    def is_done(self, case: Case) -> str | None:
        """No job, it ended, or it runs without the bad node."""
        if case.facts.job is None:
            return "no job to requeue"
        if case.facts.job_ended is not None:
            return f"job {case.facts.job}: {case.facts.job_ended}"
        job = job_now(case)
        if job is not None and runs_again(case, job):
            return f"{job_words(job)} runs on {','.join(job.nodes)}"
        return None

    def would(self, case: Case) -> str:
        """What would be done to the job."""
        job = job_now(case)
        if job is None:
            return f"job {case.facts.job} has ended"
        words = [] if is_waiting(job) else [f"requeue {job_words(job)}"]
        if case.facts.bad in job.pinned_to:
            words.append(f"take {case.facts.bad} out of its --nodelist")
        if case.facts.unfit:
            words.append(f"exclude {','.join(case.facts.unfit)}, which is unfit")
        words.append("take a requeue's delay away")
        if job.is_held:
            words.append(_held_words(case, job))
        return "; ".join(words)

    def do(self, case: Case) -> str:
        """Raises GaveUp when the job does not let go of its nodes."""
        began_s = case.world.clock.now_s()
        words = []
        job = job_now(case)
        if job is not None and is_on_nodes(job) and "COMPLETING" not in job.flags:
            refuse_job(job)
            if job.state not in ("PENDING", "COMPLETING") and case.facts.bad in job.nodes:
                case.intend(f"requeue job {job.job_id}", requeued_at_s=began_s)
                case.world.slurm.requeue(job.job_id)
                words.append("requeued")
        job = self._waiting(case)
        if job is None:
            return f"job {case.facts.job}: {case.facts.job_ended}"
        if is_on_nodes(job):
            return f"{job_words(job)} runs on {','.join(job.nodes)}"
        words += _free(case, job)
        if job.is_held:
            return f"{job_words(job)}: {_release(case, job)}"
        return f"{job_words(job)} waits for its start" + (f" ({', '.join(words)})" if words else "")

    def undo(self, case: Case) -> str | None:
        """A pin that was taken away, when the node it names is well again."""
        pins = case.facts.pins or ()
        job = job_now(case) if case.facts.job is not None else None
        if job is not None and is_waiting(job) and case.facts.excluded:
            case.intend(f"take back what job {job.job_id} excludes because of us")
            left = tuple(each for each in job.excludes if each not in case.facts.excluded)
            case.world.slurm.update_job(job.job_id, JobChange(excludes=left))
        if job is None or not is_waiting(job) or case.facts.bad not in pins:
            return None
        node = case.world.slurm.node(str(case.facts.bad))
        if job.pinned_to == pins or node.base == "DOWN" or node.is_drained:
            return None
        case.intend(f"pin job {job.job_id} to {','.join(pins)} again")
        case.world.slurm.update_job(job.job_id, JobChange(pinned_to=pins))
        return f"{job_words(job)} is pinned to {','.join(pins)} again"

    def _waiting(self, case: Case) -> JobInfo | None:
        """The job once it waits, or runs without the bad node; None when it ended."""
        limit_s = case.world.config.spares.start_s
        bad = str(case.facts.bad)

        def is_off() -> bool:
            job = job_now(case)
            if job is None or runs_again(case, job):
                return True
            return is_waiting(job) and has_left(case.world.slurm, job.job_id, bad)

        if not case.wait(is_off, limit_s):
            raise GaveUp(f"job {case.facts.job} still holds {bad} after {limit_s:.0f} s")
        return job_now(case)


def runs_again(case: Case, job: JobInfo) -> bool:
    """On all its nodes, without the bad one. While Slurm requeues a job whose node went down, it
    takes the nodes off its list one by one, and calls it RUNNING at first."""
    is_up = job.state in ("RUNNING", "CONFIGURING") and "COMPLETING" not in job.flags
    return is_up and case.facts.bad not in job.nodes and len(job.nodes) >= (case.facts.seats or 1)


def job_now(case: Case) -> JobInfo | None:
    """The job; None when it ended, which is kept as a fact."""
    assert case.facts.job is not None
    try:
        job = case.world.slurm.job(case.facts.job)
    except SlurmNotFound:
        case.learn(job_ended="ended a while ago")
        return None
    if is_on_nodes(job) or is_waiting(job):
        return job
    case.learn(job_ended=f"{job.state.lower()} meanwhile")
    return None


def _free(case: Case, job: JobInfo) -> list[str]:
    """Take away what keeps it from starting, a pin on the bad node and a requeue's delay, and keep
    it off idle nodes of the reservation that were found unfit: Slurm knows nothing of datasets."""
    words, bad = [], str(case.facts.bad)
    late_s = (job.eligible_s or 0) - case.world.clock.now_s()
    is_late = bool(job.restarts or case.facts.requeued_at_s) and late_s > SOON_S
    own = _own_excludes(case, job)
    excluded = tuple(each for each in case.facts.unfit if each not in own)
    excludes = (*own, *excluded)
    # A node in both lists would be a job that Slurm holds: BadConstraints.
    off = tuple(each for each in job.pinned_to if each in (bad, *excluded))
    pins = tuple(each for each in job.pinned_to if each not in off)
    if off:
        words.append(f"no longer pinned to {','.join(off)}")
    if set(excludes) != set(job.excludes):
        words.append(f"excludes {','.join(excludes) or 'no node'}")
    if is_late:
        words.append(f"starts {late_s:.0f} s earlier")
    if words:
        change = JobChange(
            pinned_to=pins if off else None,
            excludes=excludes if set(excludes) != set(job.excludes) else None,
            start_s=0 if is_late else None,
        )
        case.intend(f"update job {job.job_id}: {', '.join(words)}", excluded=excluded)
        case.world.slurm.update_job(job.job_id, change)
    return words


def _own_excludes(case: Case, job: JobInfo) -> tuple[str, ...]:
    """What its user excluded, without what swaps did."""
    ours = excluded_for(case.world.config.state_dir, case.wish.reservation, job.job_id)
    return tuple(each for each in job.excludes if each not in ours)


def _release(case: Case, job: JobInfo) -> str:
    if case.wish.release:
        case.intend(f"release job {job.job_id}")
        case.world.slurm.release(job.job_id)
        return "released"
    case.learn(job_ended=HELD)
    return _held_words(case, job)


def _held_words(case: Case, job: JobInfo) -> str:
    if case.wish.release:
        return "release it"
    by_launch = "launch" in (job.reason or "").lower()
    why = "after a failed launch" if by_launch else "by its user or an administrator"
    return (
        f"held {why} ({job.reason}), not by this swap: scontrol release {job.job_id}, or --release"
    )

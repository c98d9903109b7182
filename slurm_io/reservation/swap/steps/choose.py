"""Step 2: the spare that takes over soonest, of those that are fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slurm_io.reservation.model import NodeSays, Pool
from slurm_io.reservation.swap.fitness import Fitness, fitness_of
from slurm_io.reservation.swap.journal import excluded_for
from slurm_io.reservation.swap.looks import bad_words, refuse_just_started
from slurm_io.reservation.swap.model import NoSpare
from slurm_io.reservation.swap.plan_b import plan_b
from slurm_io.reservation.swap.step import Case
from slurm_io.reservation.swap.steps.requeue import runs_again
from slurm_io.reservation.swap.timing import Timing, timing_of
from slurm_io.slurm.hostlist import compress
from slurm_io.slurm.infos import JobInfo


class Choose:
    """Asks the spares, and takes the best that was not tried yet."""

    name = "choose"

    def is_done(self, case: Case) -> str | None:
        """Chosen before, or the job needs none."""
        if case.facts.spare is not None:
            return f"{case.facts.spare}: {case.facts.spare_why}"
        if job := _running_elsewhere(case):
            return f"Slurm started job {job.job_id} again without {case.facts.bad}: no spare needed"
        return None

    def would(self, case: Case) -> str:
        """The same: it reads and asks only."""
        return self.do(case)

    def do(self, case: Case) -> str:
        """Raises NoSpare with plan B."""
        began_s = case.world.clock.now_s()
        seen = _look(case)
        facts = case.facts
        chosen = _chosen(seen.fit, seen.seats, case.wish.spare, ran_known=bool(facts.former))
        own = 0 if facts.former else sum(1 for each in seen.found if each.is_own)
        if chosen is None or len(seen.fit) + own < seen.seats:
            refused = [*seen.found, *(Fitness(node, (why,)) for node, why in facts.tried)]
            names = tuple(each.node for each in seen.found)
            raise NoSpare(
                _too_few(seen.fit, seen.seats, refused, facts.seats),
                plan_b(case, seen.pool, seen.job, seen.says, names),
            )
        case.learn(
            chosen.why,
            spare=chosen.node,
            spare_why=chosen.why,
            lacking=seen.seats if facts.former else 1,
            unfit=_unfit(case, seen) if len(seen.fit) >= seen.seats else (),
        )
        _note_strays(case, seen.says.get(chosen.node))
        if "decide" not in facts.phases:
            case.spent("decide", case.world.clock.now_s() - began_s)
        unfit = "; ".join(f"{each.node}: {each.unfit[0]}" for each in seen.found if each.unfit)
        text = f"{chosen.node}: {chosen.why}; {seen.timing.words(chosen.is_busy)}"
        return text + (f" (not {unfit})" if unfit else "")

    def undo(self, case: Case) -> str | None:
        """It changed nothing."""
        return None


@dataclass(frozen=True)
class _Seen:
    """What the choice rests on. `fit`: not tried yet, the soonest first. `seats`: nodes of the job
    that must be found."""

    pool: Pool
    job: JobInfo | None
    says: Mapping[str, NodeSays]
    found: list[Fitness]
    fit: list[Fitness]
    seats: int
    timing: Timing


def _look(case: Case) -> _Seen:
    pool = case.world.read_pool()
    refuse_just_started(pool.nodes.values())
    facts = case.facts
    job = None if facts.job is None else _without_ours(case, case.world.slurm.job(facts.job))
    stay = tuple(each for each in facts.former if each != facts.bad)
    names = [each for each in pool.spares if each not in (facts.bad, *stay)]
    says = case.world.ask(tuple(dict.fromkeys([*names, *stay])))
    timing = timing_of(case.world, case.wish.reservation)
    found = [fitness_of(case.world, pool, name, job, says, stay, timing.clear_s) for name in names]
    tried = dict(facts.tried)
    fit = sorted((each for each in found if each.is_fit and each.node not in tried), key=_rank)
    return _Seen(pool, job, says, found, fit, _open_seats(case, stay), timing)


def _note_strays(case: Case, said: NodeSays | None) -> None:
    if said is not None and said.strays:
        shown = ", ".join(said.strays[:3])
        case.note(f"{said.node} has processes of users without a job: {shown}")


def _without_ours(case: Case, job: JobInfo) -> JobInfo:
    """The job as its user wants it: nodes that earlier swaps excluded may be well again."""
    ours = excluded_for(case.world.config.state_dir, case.wish.reservation, job.job_id)
    return replace(job, excludes=tuple(each for each in job.excludes if each not in ours))


def _unfit(case: Case, seen: _Seen) -> tuple[str, ...]:
    """Nodes of the reservation on which Slurm would start the job, and it must not."""
    members = seen.pool.reservation.nodes
    given_up = [node for node, _ in case.facts.tried if node in members]
    return tuple(dict.fromkeys([*(each.node for each in seen.found if each.is_own), *given_up]))


def _running_elsewhere(case: Case) -> JobInfo | None:
    """The job, when it holds nodes and the bad one is not among them."""
    if case.facts.job is None or case.facts.tried:
        return None
    job = case.world.slurm.job(case.facts.job)
    return job if runs_again(case, job) else None


def _chosen(fit: list[Fitness], seats: int, wanted: str | None, ran_known: bool) -> Fitness | None:
    """The named one, or the soonest. Without knowing where the job ran, the first seats are for its
    own nodes."""
    if wanted is not None:
        return next((each for each in fit if each.node == wanted), None)
    if not fit:
        return None
    return fit[0] if ran_known else fit[min(seats, len(fit)) - 1]


def _open_seats(case: Case, stay: tuple[str, ...]) -> int:
    """How many nodes must be found among the spares: all of the job's when it is not known where it
    ran."""
    if not case.facts.former:
        return case.facts.seats or 1
    gone = [each for each in stay if bad_words(case.world.slurm.node(each))]
    for each in gone:
        case.note(f"{each} is bad as well: slurm-io spare swap {case.wish.reservation} {each}")
    return 1 + len(gone)


def _rank(fitness: Fitness) -> tuple[float, int]:
    return fitness.rank_s, fitness.order


def _too_few(fit: list[Fitness], seats: int, found: list[Fitness], needed: int | None) -> str:
    why = "; ".join(f"{each.node}: {each.unfit[0]}" for each in found if not each.is_fit)
    if len(fit) >= seats or not fit:
        return f"no spare can take over ({why or 'there is none, or not the one that was named'})"
    have = compress([each.node for each in fit])
    return (
        f"the job needs {needed} nodes, {seats} more than it has, and only {have} can take over"
        + (f" ({why})" if why else "")
    )

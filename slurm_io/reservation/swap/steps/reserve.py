"""Step 6: the reservation gets the spare and loses the bad node, in one update, read back."""

from __future__ import annotations

import contextlib

from slurm_io.errors import SlurmError, SlurmNotFound, SlurmRefused, SlurmUnreachable
from slurm_io.reservation.swap.model import NextSpare
from slurm_io.reservation.swap.step import Case
from slurm_io.slurm.hostlist import compress
from slurm_io.slurm.infos import ReservationInfo


class Reserve:
    """Changes the reservation's list of nodes."""

    name = "reservation"

    def is_done(self, case: Case) -> str | None:
        """It has the wanted list already."""
        now = case.world.slurm.reservation(case.wish.reservation)
        if set(now.nodes) != set(_after(case)):
            return None
        return f"{now.name} has {compress(now.nodes)}"

    def would(self, case: Case) -> str:
        """The list before and after."""
        before, after = _before(case).nodes, _after(case)
        return f"nodes of {case.wish.reservation}: {compress(before)} -> {compress(after)}"

    def do(self, case: Case) -> str:
        """Raises SlurmRefused when somebody changed it since it was first read."""
        began_s = case.world.clock.now_s()
        before, after = _before(case), _after(case)
        add = tuple(each for each in after if each not in before.nodes)
        remove = tuple(each for each in before.nodes if each not in after)
        case.intend(f"nodes: {compress(before.nodes)} -> {compress(after)}", moved=True)
        try:
            now = case.world.slurm.change_reservation(before.name, add, remove, expected=before)
        except SlurmUnreachable:
            raise
        except (SlurmRefused, SlurmNotFound) as error:
            if add and "nodes are busy" in str(error):
                raise NextSpare("runs a job outside the reservation") from error
            raise
        except SlurmError:
            with contextlib.suppress(SlurmError):
                _restore(case)
            raise
        case.spent("reservation", case.world.clock.now_s() - began_s)
        return f"{now.name} has {compress(now.nodes)}"

    def undo(self, case: Case) -> str | None:
        """The old list, unless somebody else changed it meanwhile."""
        if case.facts.before is None or not case.facts.moved:
            return None
        return _restore(case)


def _restore(case: Case) -> str | None:
    before = _before(case)
    now = case.world.slurm.reservation(before.name)
    if set(now.nodes) == set(before.nodes):
        return None
    if set(now.nodes) != set(_after(case)):
        raise SlurmRefused(
            f"reservation {before.name} has {compress(now.nodes)} now, which is not what this swap "
            f"made of it: left alone; it had {compress(before.nodes)}"
        )
    add = tuple(each for each in before.nodes if each not in now.nodes)
    remove = tuple(each for each in now.nodes if each not in before.nodes)
    case.intend(f"nodes back: {compress(now.nodes)} -> {compress(before.nodes)}")
    case.world.slurm.change_reservation(before.name, add, remove, expected=now)
    case.learn(moved=False)
    return f"{before.name} has {compress(before.nodes)} again"


def _before(case: Case) -> ReservationInfo:
    kept = case.facts.before
    assert kept is not None
    return ReservationInfo(
        name=kept["name"],
        nodes=tuple(kept["nodes"]),
        start_s=kept["start_s"],
        flags=tuple(kept["flags"]),
        users=tuple(kept["users"]),
        accounts=tuple(kept["accounts"]),
    )


def _after(case: Case) -> tuple[str, ...]:
    """The old order without the bad node, the spare last."""
    kept = [each for each in _before(case).nodes if each != case.facts.bad]
    spare = () if case.facts.spare is None else (case.facts.spare,)
    return tuple(dict.fromkeys([*kept, *spare]))

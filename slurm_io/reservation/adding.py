"""Bringing a node in as a spare, and taking one out: first the proof, then the reservation.

A node that was repaired may have another disk, or its old one with damage: what it says of its
dataset counts only after every byte was read again. What is missing or wrong is staged.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from slurm_io.config import Config
from slurm_io.errors import HostError, SlurmRefused
from slurm_io.reservation.asking import ask_nodes
from slurm_io.reservation.history import History, HistoryRecord
from slurm_io.reservation.model import Answer, DataSays, Pool, Reach
from slurm_io.reservation.pool import is_own, jobs_on, read_pool
from slurm_io.reservation.swap.lock import held
from slurm_io.reservation.watch.signs import sign_of
from slurm_io.slurm.base import Slurm
from slurm_io.slurm.hostlist import compress

Tell = Callable[[str], None]
Stage = Callable[[str, str], str | None]
_CHARS = 300
_VERDICTS = ("FAIL", "DEGRADED", "UNKNOWN")


@dataclass(frozen=True)
class Hands:
    """What the work is done with. `stage` copies what a node lacks, ``(reservation, node)``, and
    answers why it could not, None = it did. `tell` gets one line for each thing done."""

    slurm: Slurm
    reach: Reach
    config: Config
    stage: Stage
    config_path: str | None = None
    tell: Tell = lambda line: None


@dataclass(frozen=True)
class Change:
    """What came of it. `data`: what the node's record says of the dataset, None without one."""

    reservation: str
    node: str
    outcome: Literal["added", "proven", "removed", "would-add", "would-remove"]
    text: str
    data: DataSays | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


def add_spare(
    hands: Hands, name: str, node: str, dry: bool = False, stay_outside: bool = False
) -> Change:
    """Prove the node's copy (level 4), stage what is wrong, and put the node into the reservation,
    unless it is to stay outside.

    Raises SlurmRefused for a node that is not well or not free, and when its copy could not be made
    whole; then the reservation is as it was. SlurmError when Slurm refuses or does not answer.
    """
    pool = _with(hands, read_pool(hands.slurm, hands.config, name), node)
    _refuse_unfit(pool, node)
    inside = node in pool.reservation.nodes
    if dry:
        proof = f"verify {pool.settings.dataset} on {node}, stage what is wrong" * bool(
            pool.settings.dataset
        )
        move = "" if inside or stay_outside else f"add {node} to reservation {name}"
        return Change(name, node, "would-add", ", then ".join(filter(None, (proof, move))))
    data = _proven(hands, pool, node) if pool.settings.dataset else None
    _refuse_unwell(hands, pool, node)
    if inside or stay_outside:
        _record_repair(hands, name, node)
        where = "is in" if inside else "stays outside"
        return Change(name, node, "proven", f"{node} {where} reservation {name}", data)
    with held(hands.config.state_dir, name, hands.config.spares.lock_s, "spare add"):
        now = read_pool(hands.slurm, hands.config, name)
        _refuse_unfit(_with(hands, now, node), node)
        after = hands.slurm.change_reservation(name, add=(node,), expected=now.reservation)
    _record_repair(hands, name, node)
    return Change(name, node, "added", f"reservation {name} has {compress(after.nodes)}", data)


def remove_spare(hands: Hands, name: str, node: str, dry: bool = False) -> Change:
    """Take a node on which no protected job runs out of the reservation. Raises SlurmRefused."""
    with held(hands.config.state_dir, name, hands.config.spares.lock_s, "spare remove"):
        pool = read_pool(hands.slurm, hands.config, name)
        if node not in pool.reservation.nodes:
            have = compress(pool.reservation.nodes)
            raise SlurmRefused(f"{node} is not in reservation {name}, which has {have}")
        protected = {job.job_id for job in pool.protected}
        for job in jobs_on(pool, node):
            if job.job_id in protected:
                raise SlurmRefused(
                    f"job {job.job_id} of reservation {name} runs on {node}: slurm-io spare swap "
                    f"{name} {node} moves it"
                )
        kept = [each for each in pool.reservation.nodes if each != node]
        text = f"reservation {name}: {compress(pool.reservation.nodes)} -> {compress(kept)}"
        if dry:
            return Change(name, node, "would-remove", text)
        hands.slurm.change_reservation(name, remove=(node,), expected=pool.reservation)
    return Change(name, node, "removed", text)


def _record_repair(hands: Hands, name: str, node: str) -> None:
    """For the time to repair, where the history knows of a failure. It spoils nothing."""
    try:
        history = History(hands.config.state_dir, name)
        told = [each.kind for each in history.read() if each.bad == node and each.kind != "drill"]
        if told and told[-1] != "repair":
            history.append(HistoryRecord("repair", time.time(), node))
    except HostError as error:
        hands.tell(f"not kept in the history: {error}")


def _with(hands: Hands, pool: Pool, node: str) -> Pool:
    """The pool with this node in it, wherever it stands, so that it can be asked. Raises
    SlurmNotFound."""
    return replace(pool, nodes={**pool.nodes, node: hands.slurm.node(node)})


def _refuse_unfit(pool: Pool, node: str) -> None:
    sign = sign_of(pool.nodes[node], {})
    if sign is not None:
        raise SlurmRefused(
            f"{node} is no spare: {sign.text}; mend it, then scontrol update NodeName={node} "
            "State=RESUME"
        )
    other = pool.nodes[node].reservation
    if other not in (None, pool.name):
        raise SlurmRefused(f"{node} is in reservation {other}: take it out of that one first")
    filler = {job.job_id for job in pool.filler}
    for job in jobs_on(pool, node):
        if job.job_id not in filler and not is_own(job):
            raise SlurmRefused(f"job {job.job_id} runs on {node}, which does not give way: wait")
    if not jobs_on(pool, node) and pool.nodes[node].base in ("ALLOCATED", "MIXED"):
        raise SlurmRefused(f"jobs run on {node} that are none of this reservation's: wait for them")


def _refuse_unwell(hands: Hands, pool: Pool, node: str) -> None:
    says = ask_nodes(hands.reach, pool, hands.config, (node,), hands.config_path)[node]
    if says.problem is not None:
        raise SlurmRefused(f"{node} gives no answer: {says.problem}")
    for check, (answer, text) in sorted(says.health.items()):
        if answer == "FAIL":
            raise SlurmRefused(f"{node} is no spare: check {check} FAILs: {text[:_CHARS]}")


def _proven(hands: Hands, pool: Pool, node: str) -> DataSays:
    """The node's record, ready and read in full. Raises SlurmRefused."""
    dataset, tier = pool.settings.dataset, pool.settings.tier
    hands.tell(f"{node}: reading all of {dataset}")
    verify = ("dataset", "verify", dataset, "--tier", tier, "--level", "4", "--record", "--idle")
    answer = _ask(hands, pool, node, (*verify, "--ignore-extra"))
    if answer.rc != 0:
        hands.tell(f"{node}: {_said(answer)}; staging what is missing or wrong")
        if (problem := hands.stage(pool.name, node)) is not None:
            raise SlurmRefused(
                f"{node} could not be given {dataset}: {problem[:_CHARS]}; from another place: "
                f"slurm-io dataset stage {dataset} --to {node} --reservation {pool.name} --from "
                "/FOLDER (for nodes of the reservation and its standby)"
            )
    says = ask_nodes(hands.reach, pool, hands.config, (node,), hands.config_path)[node]
    data = says.data
    if data is None or data.state != "ready" or data.problem is not None:
        why = says.problem or (data.problem or data.state if data is not None else "no record")
        raise SlurmRefused(f"{node} does not hold {dataset} after all: {why}")
    return data


def _ask(hands: Hands, pool: Pool, node: str, arguments: tuple[str, ...]) -> Answer:
    inside = pool.name if node in pool.reservation.nodes else None
    chosen = ("--config", hands.config_path) if hands.config_path else ()
    limit_s = hands.config.stage.time_limit_s
    return hands.reach.ask((node,), (*arguments, *chosen), limit_s, reservation=inside)[node]


def _said(answer: Answer) -> str:
    """The line that tells why: a verdict, else the last complaint, else the answer's first line.
    A complaint beside a verdict only follows from it."""
    complaints, lines = _lines(answer.stderr), _lines(answer.stdout)
    verdicts = [line for line in lines[:1] if line.startswith(_VERDICTS)]
    told = verdicts or complaints[-1:] or lines[:1]
    if not told:
        return answer.problem or f"exit code {answer.rc}"
    shown = "".join(each if each.isprintable() else "?" for each in told[0])
    return " ".join(shown.removeprefix("slurm-io: ").split())[:_CHARS]


def _lines(output: bytes) -> list[str]:
    return output.decode("utf-8", "replace").strip().splitlines()

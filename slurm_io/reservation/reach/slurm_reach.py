"""Reach through Slurm: a look at the cluster, one srun for many nodes, an answer for each."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from slurm_io.config import Config
from slurm_io.errors import SlurmError, SlurmRefused
from slurm_io.records import replace
from slurm_io.reservation.model import Answer
from slurm_io.reservation.reach.asking import GroupAnswers, Question, ask_group
from slurm_io.reservation.reach.limits import ReachLimits
from slurm_io.reservation.reach.ways import Group, Ways, ways
from slurm_io.slurm.base import SlurmReader

_WORTH_A_RETRY_S = 3.0
_SPARED_S = 60.0


class SlurmReach:
    """:class:`slurm_io.reservation.model.Reach` for root and SlurmUser.

    Two calls of slurmctld and one srun for each group of nodes that is reached in the same way.
    """

    def __init__(self, slurm: SlurmReader, limits: ReachLimits | None = None) -> None:
        self._slurm = slurm
        self._limits = limits or ReachLimits()

    @property
    def limits(self) -> ReachLimits:
        """What questions may cost."""
        return self._limits

    @classmethod
    def of(cls, slurm: SlurmReader, config: Config) -> SlurmReach:
        """In the way that the site has chosen ([spares] reach)."""
        return cls(slurm, ReachLimits(way=config.spares.reach))  # type: ignore[arg-type]

    def ask(
        self,
        nodes: Sequence[str],
        arguments: Sequence[str],
        limit_s: float,
        stdin: bytes = b"",
        reservation: str | None = None,
    ) -> dict[str, Answer]:
        """Every node of `nodes` is in the answer; a problem says why there is nothing else."""
        limits = self._limits
        if len(stdin) > limits.stdin_bytes:
            text = f"more than {limits.stdin_bytes} bytes for its stdin"
            return {node: Answer(node, None, problem=text) for node in nodes}
        question = Question(tuple(arguments), stdin, time.monotonic() + limit_s)
        try:
            found = self._ways(nodes, reservation)
        except SlurmError as error:
            return {node: Answer(node, None, problem=str(error)) for node in nodes}
        answers = {node: Answer(node, None, problem=why) for node, why in found.problems.items()}
        silent = self._ask_all(list(_cut(found.groups, limits.nodes_per_srun)), question, answers)
        for node, why in silent.items():
            answers[node] = Answer(node, None, problem=why)
        return {node: answers[node] for node in dict.fromkeys(nodes)}

    def way_to(self, node: str, reservation: str | None) -> Group:
        """How a command of root's gets onto one node for long. Raises SlurmRefused, SlurmError."""
        found = self._ways([node], reservation)
        if node in found.problems:
            raise SlurmRefused(f"{node}: {found.problems[node]}")
        (group,) = found.groups
        if group.kind == "step":
            raise SlurmRefused(
                f"{node} is full, and in somebody's job nothing of root's can run: wait for job "
                f'{group.job_id}, or set [spares] reach = "direct"'
            )
        return group

    def longest_s(self, group: Group, wanted_s: float) -> float:
        """How long something may run there, at most `wanted_s`: a job that asks for more than its
        partition allows, or than its reservation lasts, waits for ever. Raises SlurmError."""
        if group.kind != "job":
            return wanted_s
        limits = [wanted_s]
        for partition in self._slurm.partitions():
            if partition.name == group.partition and partition.max_time_s is not None:
                limits.append(partition.max_time_s)
        if group.reservation is not None:
            left_s = self._slurm.reservation(group.reservation).left_s(time.time())
            limits += [left_s - _SPARED_S] if left_s is not None else []
        return max(_SPARED_S, min(limits))

    def _ways(self, nodes: Sequence[str], reservation: str | None) -> Ways:
        known = {node.name: node for node in self._slurm.nodes()}
        direct = self._is_direct()
        jobs = () if direct else self._slurm.jobs()
        return ways(nodes, known, jobs, reservation, direct, os.geteuid())

    def _is_direct(self) -> bool:
        if self._limits.way != "auto":
            return self._limits.way == "direct"
        return os.geteuid() == 0 and self._slurm.config().has_prolog is False

    def _ask_all(
        self, groups: list[Group], question: Question, answers: dict[str, Answer]
    ) -> dict[str, str]:
        """Fill `answers`; the nodes of which nothing came, and why.

        One node that Slurm does not give, or that dies meanwhile, keeps the others of its group
        from answering: what is left is asked once more, node by node where it got no nodes.
        """
        silent: dict[str, str] = {}
        again: list[Group] = []
        for group, result in self._ask_at_once(groups, question):
            answers.update(result.answers)
            silent.update(result.silent)
            again.extend(_rest(group, result))
        if again and question.left_s() > _WORTH_A_RETRY_S:
            for _, result in self._ask_at_once(again, question):
                answers.update(result.answers)
                silent = {node: why for node, why in silent.items() if node not in result.answers}
                silent.update(result.silent)
        return silent

    def _ask_at_once(
        self, groups: list[Group], question: Question
    ) -> list[tuple[Group, GroupAnswers]]:
        if not groups:
            return []
        stop = threading.Event()
        with ThreadPoolExecutor(self._limits.sruns) as pool:
            try:
                futures = [
                    pool.submit(ask_group, group, question, self._limits, stop) for group in groups
                ]
                return [
                    (group, future.result()) for group, future in zip(groups, futures, strict=True)
                ]
            except BaseException:
                stop.set()  # Ctrl-C: every srun ends, then the pool
                raise


def _cut(groups: Sequence[Group], most: int) -> Iterator[Group]:
    for group in groups:
        for at in range(0, len(group.nodes), most):
            yield replace(group, nodes=group.nodes[at : at + most])


def _rest(group: Group, result: GroupAnswers) -> Iterator[Group]:
    left = tuple(node for node in group.nodes if node in result.silent)
    if len(group.nodes) == 1 or not left:
        return
    if result.given:
        yield replace(group, nodes=left)
    else:
        for node in left:
            yield replace(group, nodes=(node,))

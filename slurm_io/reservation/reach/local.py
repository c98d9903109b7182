"""Reach without Slurm: this machine only."""

from __future__ import annotations

from collections.abc import Sequence

from slurm_io.reservation.model import Answer
from slurm_io.reservation.reach.limits import ReachLimits
from slurm_io.reservation.reach.node_part import answer


class LocalReach:
    """:class:`slurm_io.reservation.model.Reach` for a single machine and for tests: every node
    asked is this one, under the name it is asked by (SLURMD_NODENAME)."""

    def __init__(self, nodes: Sequence[str] | None = None, limits: ReachLimits | None = None):
        self._nodes = None if nodes is None else frozenset(nodes)
        self._limits = limits or ReachLimits()

    def ask(
        self,
        nodes: Sequence[str],
        arguments: Sequence[str],
        limit_s: float,
        stdin: bytes = b"",
        reservation: str | None = None,
    ) -> dict[str, Answer]:
        """One after the other, each within the limit."""
        return {node: self._ask(node, list(arguments), limit_s, stdin) for node in nodes}

    def _ask(self, node: str, arguments: list[str], limit_s: float, stdin: bytes) -> Answer:
        if self._nodes is not None and node not in self._nodes:
            return Answer(node, None, problem="this machine is not that node")
        most = (self._limits.stdout_bytes, self._limits.stderr_bytes)
        said = answer(node, arguments, limit_s, stdin, most)
        stdout, stderr = said.stdout.encode(), said.stderr.encode()
        return Answer(node, said.rc, stdout, stderr, said.problem)

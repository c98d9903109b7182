"""The watch's world as it is: Slurm, the nodes reached through it, this machine."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from slurm_io.config import Config
from slurm_io.errors import HostError, SlurmError, SlurmNotFound
from slurm_io.host.detached import minimal_environment, spawn
from slurm_io.host.same_process import is_alive, starttime_of
from slurm_io.reservation.asking import ask_nodes
from slurm_io.reservation.features import sync_features
from slurm_io.reservation.history import History, HistoryRecord
from slurm_io.reservation.model import NodeSays, Pool, Reach, SpareState
from slurm_io.reservation.pool import read_pool
from slurm_io.reservation.status import gpu_ledger
from slurm_io.reservation.status.judge import judge
from slurm_io.reservation.status.run import run_of
from slurm_io.reservation.swap.lock import holder_of
from slurm_io.reservation.watch.alert import alert
from slurm_io.reservation.watch.filler_job import filler_job
from slurm_io.reservation.watch.model import Look
from slurm_io.slurm.base import Slurm
from slurm_io.slurm.infos import NodeInfo


@dataclass
class Site:
    """Implements :class:`slurm_io.reservation.watch.world.World`.

    Nodes are asked again when their answer is older than spares.health_age_s, and at each look
    while it speaks against them. `log_path`: where processes that it starts write.
    """

    slurm: Slurm
    reach: Reach
    config: Config
    config_path: str | None
    reservation: str
    log_path: str = os.devnull
    _says: dict[str, NodeSays] = field(default_factory=dict)

    def look(self, at_s: float, left: Sequence[str]) -> Look:
        """Raises SlurmUnreachable when slurmctld is not there, whatever was read from it before."""
        if not self.slurm.is_up():
            raise SlurmError("no slurmctld answers (scontrol ping)")
        pool = read_pool(self.slurm, self.config, self.reservation)
        self._ask(pool, at_s)
        holder = holder_of(self.config.state_dir, self.reservation)
        return Look(
            at_s,
            pool,
            dict(self._says),
            self._states(pool),
            self._outside(left),
            holder.words if holder is not None else None,
        )

    def start(self, arguments: Sequence[str]) -> tuple[int, int]:
        """With nothing of ours but Slurm's configuration; its output goes to `log_path`."""
        chosen = ("--config", self.config_path) if self.config_path else ()
        # -P: no module is taken from the folder in which the watch was started.
        argv = (sys.executable, "-P", "-m", "slurm_io", *arguments, *chosen)
        try:
            pid = spawn(argv, minimal_environment(os.environ), self.log_path)
        except OSError as error:
            raise HostError(f"cannot start {' '.join(argv)}: {error.strerror}") from error
        return pid, starttime_of(pid) or 0

    def is_running(self, pid: int, born: int) -> bool:
        """Takes note of children that have ended; those of an earlier watch have another parent."""
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                self._says.clear()
                return False
        return is_alive(pid, born)

    def submit_filler(self, node: str) -> str:
        """As the site's filler_user, pinned to the node."""
        pool = read_pool(self.slurm, self.config, self.reservation)
        return self.slurm.submit(filler_job(pool, node))

    def cancel(self, job_id: str) -> None:
        """scancel."""
        self.slurm.cancel(job_id)

    def sync_features(self, look: Look, distrusted: Collection[str]) -> list[str]:
        """Nodes whose record tells what they hold; see :mod:`slurm_io.reservation.features`."""
        dataset = look.pool.settings.dataset.partition("@")[0]
        told = []
        for node in look.pool.nodes.values() if dataset else ():
            says = look.says.get(node.name)
            trusted = node.name not in distrusted
            change = sync_features(self.slurm, node, dataset, says, trusted)
            told += [f"{node.name}: {change}"] if change else []
        return told

    def record(self, record: HistoryRecord) -> None:
        """Into the history beside the watch's memory."""
        History(self.config.state_dir, self.reservation).append(record)

    def alert(self, text: str) -> None:
        """spares.alert_command."""
        alert(self.config.spares.alert_command, f"slurm_io: {text}")

    def _ask(self, pool: Pool, at_s: float) -> None:
        """Only of nodes of this pool anything is kept."""
        self._says = {node: says for node, says in self._says.items() if node in pool.nodes}
        states = self._states(pool)
        due = [node for node in pool.nodes if self._is_due(node, states, at_s)]
        if due:
            answers = ask_nodes(self.reach, pool, self.config, due, self.config_path)
            self._says |= answers
            # What cannot be kept there is told of the watch's own memory, in the same folder.
            gpu_ledger.try_update(self.config.state_dir, self.reservation, answers.values())

    def _states(self, pool: Pool) -> dict[str, SpareState]:
        wanted = run_of(pool, self.config, self._says).content_id
        return {node: judge(pool, node, self._says.get(node), wanted)[0] for node in pool.spares}

    def _is_due(self, node: str, states: Mapping[str, SpareState], at_s: float) -> bool:
        says = self._says.get(node)
        if says is None or at_s - says.asked_at_s >= self.config.spares.health_age_s:
            return True
        fails = any(answer == "FAIL" for answer, _ in says.health.values())
        is_fine = states.get(node, "ready") == "ready"
        return fails or says.problem is not None or not is_fine

    def _outside(self, names: Sequence[str]) -> dict[str, NodeInfo]:
        found = {}
        for name in names:
            with contextlib.suppress(SlurmNotFound):
                found[name] = self.slurm.node(name)
        return found

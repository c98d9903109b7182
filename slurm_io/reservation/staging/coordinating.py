"""Who copies from whom, until every target has an answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence

from slurm_io.config import Config
from slurm_io.errors import SlurmError
from slurm_io.reservation.reach.slurm_reach import SlurmReach
from slurm_io.reservation.staging.copying import Copying, common_words, stage_words
from slurm_io.reservation.staging.donors import Donors
from slurm_io.reservation.staging.errand import Errand
from slurm_io.reservation.staging.giving import Giving, serve_words
from slurm_io.reservation.staging.model import Donor, NodeAnswer, NodesPlan, Target, Wish
from slurm_io.reservation.staging.shares import share

Say = Callable[[str], None]
_POLL_S = 0.2
_TRIES = 3


class Coordinator:
    """One staging of one plan. `say` gets lines of progress, from any thread."""

    def __init__(
        self, plan: NodesPlan, config: Config, wish: Wish, reach: SlurmReach, say: Say,
        stop: threading.Event,
    ) -> None:  # fmt: skip
        self._plan, self._settings, self._wish = plan, config.stage, wish
        self._reach, self._say, self._stop = reach, say, stop
        self._dataset = f"{plan.name}@{plan.content_id}"
        self._waiting = list(plan.targets)
        self._tries = dict.fromkeys((target.node for target in plan.targets), 0)
        self._donors = Donors(plan.donors, self._serve, say, stop)
        self._copying: list[Copying] = []
        self._answers: dict[str, NodeAnswer] = {}

    def run(self) -> tuple[NodeAnswer, ...]:
        """One answer for each target; with `stop` set, of those that were not done too."""
        while (self._waiting or self._copying) and not self._stop.is_set():
            self._begin()
            self._collect()
            if self._waiting and not self._copying and not self._can_begin:
                self._give_up("no node is left that gives this version")
            self._stop.wait(_POLL_S)
        self._give_up("ended before it was done: the same command goes on")
        return tuple(self._answers[target.node] for target in self._plan.targets)

    def end(self) -> None:
        """Nothing of it runs any more, here or on a node."""
        copying = [each.errand for each in self._copying if each.errand is not None]
        running = [*copying, *self._donors.errands()]
        for errand in running:
            errand.stop()
        for errand in running:
            errand.wait()

    @property
    def _can_begin(self) -> bool:
        return bool(self._plan.places or self._donors.names)

    def _begin(self) -> None:
        """Bring targets that wait together with donors that are free."""
        if self._plan.places:
            for target in self._waiting:
                self._start(target, (), b"")
            self._waiting = []
            return
        busy = {donor for each in self._copying for donor in each.donors}
        free = [node for node in self._donors.names if node not in busy]
        waiting = {target.node: target for target in self._waiting}
        for node, names in share(free, list(waiting), self._settings.donors).items():
            serving = self._donors.open(names)
            if serving:
                self._waiting.remove(waiting[node])
                sources = json.dumps([self._donors.source(name) for name in serving])
                self._start(waiting[node], serving, sources.encode())

    def _start(self, target: Target, donors: Sequence[str], stdin: bytes) -> None:
        copying = Copying(target, donors)
        words = stage_words(self._dataset, self._wish, self._plan.places)
        self._tries[target.node] += 1
        try:
            copying.errand = self._errand(target.node, words, stdin, copying.take_line)
        except SlurmError as error:
            self._answers[target.node] = NodeAnswer(target.node, None, str(error), copying.donors)
            return
        self._say(f"{target.node}: copies from {', '.join(donors or self._plan.places)}")
        self._copying.append(copying)

    def _serve(self, giving: Giving, secret: str) -> Errand:
        hosts = tuple(dict.fromkeys(target.host for target in self._plan.targets))
        lifetime_s, common = self._settings.time_limit_s, common_words(self._wish)
        words = serve_words(self._dataset, giving.donor, hosts, lifetime_s, common)
        return self._errand(giving.donor.node, words, f"{secret}\n".encode(), giving.take_line)

    def _errand(self, node: str, words: tuple[str, ...], stdin: bytes, take: Say) -> Errand:
        """Raises SlurmError where no command of root's may run."""
        group = self._reach.way_to(node, self._plan.reservation)

        def say(line: str) -> None:
            self._say(f"{node}: {line}")

        limit_s = self._reach.longest_s(group, self._settings.time_limit_s)
        return Errand(group, words, stdin, limit_s, self._reach.limits, take, say)

    def _collect(self) -> None:
        for copying in [each for each in self._copying if each.errand and each.errand.is_over]:
            self._copying.remove(copying)
            target = copying.target
            if copying.is_ready:
                self._donors.add(Donor(target.node, "spare", target.host))
            elif self._is_worth_another_try(copying):
                self._say(f"{target.node}: goes on from another node")
                self._waiting.append(target)
                continue
            self._answers[target.node] = copying.node_answer()

    def _is_worth_another_try(self, copying: Copying) -> bool:
        """Where a donor of it is gone and others live."""
        lost = self._donors.drop_lost(copying.donors)
        again = bool(lost and self._donors.names) and self._tries[copying.target.node] < _TRIES
        return again and not self._stop.is_set()

    def _give_up(self, why: str) -> None:
        for target in (*self._waiting, *(each.target for each in self._copying)):
            self._answers.setdefault(target.node, NodeAnswer(target.node, None, why))
        self._waiting = []

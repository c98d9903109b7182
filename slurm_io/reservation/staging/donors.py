"""The nodes that give now: begun when needed, dropped when they fail, joined by who is ready."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slurm_io.errors import SlurmError
from slurm_io.reservation.staging.errand import Errand
from slurm_io.reservation.staging.giving import Giving
from slurm_io.reservation.staging.model import Donor
from slurm_io.staging.stage.peer_model import new_secret

_OPEN_S = 60.0
Serve = Callable[[Giving, str], Errand]
"""Starts ``dataset serve`` of a giving with a secret. Raises SlurmError."""


class Donors:
    """Known donors in order of preference."""

    def __init__(
        self, donors: Sequence[Donor], serve: Serve, say: Callable[[str], None],
        stop: threading.Event,
    ) -> None:  # fmt: skip
        self._left = {donor.node: donor for donor in donors}
        self._givings: dict[str, Giving] = {}
        self._serve, self._say, self._stop = serve, say, stop

    @property
    def names(self) -> tuple[str, ...]:
        """Those that are left."""
        return tuple(self._left)

    def add(self, donor: Donor) -> None:
        """One more, the last to be asked."""
        self._left[donor.node] = donor

    def open(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of them that serve, begun now where need be; the others are dropped."""
        begun = [name for name in names if name not in self._givings]
        problems = {name: self._begin(name) for name in begun}
        for name in begun:
            why = problems[name] or self._givings[name].wait_until_open(_OPEN_S, self._stop)
            if why is not None:
                self._drop(name, why)
        self.drop_lost(names)
        return tuple(name for name in names if name in self._left)

    def drop_lost(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of them that serve no longer."""
        lost = [name for name in names if name not in self._left or not self._is_open(name)]
        for name in lost:
            giving = self._givings.get(name)
            errand = giving.errand if giving is not None else None
            self._drop(name, "it did not serve" if errand is None else errand.last_words())
        return tuple(lost)

    def source(self, name: str) -> Mapping[str, Any]:
        """As ``dataset stage --sources`` reads it."""
        return self._givings[name].source()

    def errands(self) -> list[Errand]:
        """What runs of it."""
        return [each.errand for each in self._givings.values() if each.errand is not None]

    def _is_open(self, name: str) -> bool:
        return name in self._givings and self._givings[name].is_open

    def _begin(self, name: str) -> str | None:
        secret = new_secret()
        giving = Giving(self._left[name], secret)
        try:
            giving.errand = self._serve(giving, secret)
        except SlurmError as error:
            return str(error)
        self._givings[name] = giving
        self._say(f"{name}: serves ({giving.donor.kind})")
        return None

    def _drop(self, name: str, why: str) -> None:
        if self._left.pop(name, None) is not None and not self._stop.is_set():
            self._say(f"{name}: gives no more: {why}")

"""One target's ``dataset stage`` on its node, and the answer that it prints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from slurm_io.reservation.staging.errand import Errand
from slurm_io.reservation.staging.model import NodeAnswer, Target, Wish

_TEXT_CHARS = 500
_LEVELS = 6


class Copying:
    """A target that copies from `donors`; with none, from the places of the wish."""

    def __init__(self, target: Target, donors: Sequence[str]) -> None:
        self.target = target
        self.donors = tuple(donors)
        self.errand: Errand | None = None
        self._answer: Mapping[str, Any] | None = None

    def take_line(self, line: str) -> None:
        """The answer is a line of JSON; anything else is left out."""
        try:
            told = json.loads(line, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return
        if isinstance(told, dict) and isinstance(told.get("state"), str) and _is_flat(told):
            self._answer = told

    @property
    def is_ready(self) -> bool:
        """Whether exit code and answer both say so."""
        assert self.errand is not None
        said = self._answer is not None and self._answer["state"] == "ready"
        return said and self.errand.rc == 0

    def node_answer(self) -> NodeAnswer:
        """Once it is over. An exit code alone makes nothing ready."""
        assert self.errand is not None
        node, rc, answer = self.target.node, self.errand.rc, self._answer
        text = self.errand.last_words() if answer is None else str(answer.get("text"))
        if rc == 0 and not self.is_ready:
            rc, text = None, f"it ended well, and does not say that it is ready: {text}"
        return NodeAnswer(node, rc, _plain(text), self.donors, answer)


def stage_words(dataset: str, wish: Wish, sources: Sequence[str]) -> tuple[str, ...]:
    """The command on the target. `sources` empty: they come on stdin, with their secrets."""
    words = [f"--from={each}" for each in sources] or ["--sources=-"]
    words += [f"--bandwidth={wish.bandwidth}"] if wish.bandwidth else []
    words += ["--delete-extra"] if wish.delete_extra else []
    return ("dataset", "stage", dataset, *words, "--json", *common_words(wish))


def common_words(wish: Wish) -> tuple[str, ...]:
    """What donor and target are both told."""
    tier = (f"--tier={wish.tier}",) if wish.tier else ()
    config = (f"--config={wish.config_path}",) if wish.config_path else ()
    return (*tier, *config)


def _refuse(constant: str) -> None:
    """NaN and the like are no JSON: whoever reads ours would stumble."""
    raise ValueError(constant)


def _is_flat(value: Any, levels: int = _LEVELS) -> bool:
    """Whether it is nested no deeper than an answer is; a sick node may send anything."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_flat(each, levels - 1) for each in inner)


def _plain(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text[:_TEXT_CHARS])

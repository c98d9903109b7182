"""Step 3: the spare proves its copy of the dataset, now, levels 0 to 2."""

from __future__ import annotations

import json

from slurm_io.reservation.model import Answer
from slurm_io.reservation.pool import settings_of
from slurm_io.reservation.swap.model import NextSpare
from slurm_io.reservation.swap.step import Case

LEVEL = 2


class Verify:
    """``dataset verify`` on the spare itself."""

    name = "verify"

    def is_done(self, case: Case) -> str | None:
        """No spare, no dataset, moved already, or proven a short while ago."""
        facts, config = case.facts, case.world.config
        if facts.spare is None:
            return "no spare to verify"
        if not settings_of(config, case.wish.reservation).dataset:
            return f"reservation.{case.wish.reservation} names no dataset: nothing to verify"
        if facts.verified_at_s is None:
            return None
        age_s = case.world.clock.now_s() - facts.verified_at_s
        if facts.moved or age_s <= config.spares.health_age_s:
            return f"{facts.spare} was verified {age_s:.0f} s ago"
        return None

    def would(self, case: Case) -> str:
        """Which command would run where."""
        return f"on {case.facts.spare}: slurm-io {' '.join(_arguments(case))}"

    def do(self, case: Case) -> str:
        """Raises NextSpare when the copy is not whole, or no answer comes."""
        spare = case.facts.spare
        assert spare is not None
        limit_s = case.world.config.spares.ask_s
        answer = case.world.reach.ask(
            [spare], _arguments(case), limit_s, reservation=case.wish.reservation
        )[spare]
        text = _judged(answer)
        case.learn(text, verified_at_s=case.world.clock.now_s())
        return f"{spare}: {text}"

    def undo(self, case: Case) -> str | None:
        """It changed nothing."""
        return None


def _arguments(case: Case) -> tuple[str, ...]:
    settings = settings_of(case.world.config, case.wish.reservation)
    config = () if case.world.config_path is None else ("--config", case.world.config_path)
    what = ("dataset", "verify", settings.dataset, "--tier", settings.tier)
    return (*what, "--level", str(LEVEL), "--json", *config)


def _judged(answer: Answer) -> str:
    if answer.rc is None:
        raise NextSpare(f"no answer to a verification: {answer.problem or 'unknown why'}")
    try:
        said = json.loads(answer.stdout)
        verdict, text = str(said["answer"]), str(said.get("text", ""))
    except (ValueError, KeyError, TypeError):
        told = answer.stderr.decode("utf-8", "replace").strip().splitlines()
        raise NextSpare(
            f"its verification ended with {answer.rc}: {(told or ['no words'])[-1][:200]}"
        ) from None
    if answer.rc != 0 or verdict != "OK":
        raise NextSpare(f"its copy is not whole: {verdict} {text[:200]}")
    by = "" if answer.uid is None else f" (told by a process of uid {answer.uid})"
    return f"{verdict} {text[:200]}{by}"

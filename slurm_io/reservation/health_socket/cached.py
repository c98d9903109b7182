"""The node's own checks, run now and then; whoever asks gets the last answer at once.

A request never starts a check: a hundred ranks that ask at a restart cost no more than one.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slurm_io.errors import HostError
from slurm_io.host.run import run

_ANSWER_BYTES = 1 << 20
_TEXT_CHARS = 200


@dataclass(frozen=True)
class NodeHealth:
    """What the checks said. `failed`: check -> text, node faults only. `problem`: why they could
    not be run; that is no fault of the node."""

    at_s: float
    failed: tuple[tuple[str, str], ...] = ()
    problem: str | None = None

    def output(self, now_s: float) -> str:
        """As the client reads it: ``fail_count`` must be there, ``failed_checks`` is shown."""
        answer: dict[str, Any] = {
            "fail_count": len(self.failed),
            "failed_checks": [name for name, _ in self.failed],
            "details": dict(self.failed),
            "age_s": round(max(0.0, now_s - self.at_s), 1),
        }
        if self.problem is not None:
            answer["problem"] = self.problem
        return json.dumps(answer)


Ask = Callable[[], NodeHealth]


class CachedHealth:
    """The last answer, made anew by :meth:`keep_fresh` every `period_s` in its own thread."""

    def __init__(self, ask: Ask, period_s: float) -> None:
        self._ask = ask
        self._period_s = period_s
        self._last = ask()
        self._ended = threading.Event()

    def now(self) -> NodeHealth:
        """At once. An answer that is much too old tells nothing: nothing failed, with a problem."""
        last = self._last
        age_s = time.time() - last.at_s
        if age_s > 10 * self._period_s:
            return NodeHealth(last.at_s, (), f"the last check was {age_s:.0f} s ago")
        return last

    def keep_fresh(self) -> None:
        """Until :meth:`end`."""
        while not self._ended.wait(self._period_s):
            self._last = self._ask()

    def end(self) -> None:
        """Let :meth:`keep_fresh` return."""
        self._ended.set()


def check_node(limit_s: float, config_path: str | None, more: Sequence[str] = ()) -> NodeHealth:
    """``slurm-io check --node-only`` in a process that can be killed."""
    chosen = ("--config", config_path) if config_path else ()
    argv = [sys.executable, "-m", "slurm_io", "check", "--node-only", "--json", *chosen, *more]
    now_s = time.time()
    try:
        done = run(argv, limit_s, limit_bytes=_ANSWER_BYTES)
        return NodeHealth(now_s, _failed(json.loads(done.stdout)))
    except HostError as error:
        return NodeHealth(now_s, (), str(error)[:_TEXT_CHARS])
    except (ValueError, KeyError, TypeError):
        said = done.stderr.strip()[-_TEXT_CHARS:]
        return NodeHealth(now_s, (), f"the check ended with {done.return_code}: {said}")


def _failed(answer: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (str(each["check"]), str(each["text"])[:_TEXT_CHARS])
        for each in answer["checks"]
        if each["answer"] == "FAIL" and not each["record_only"]
    )

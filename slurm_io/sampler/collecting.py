"""Runs one collector so that its faults stay its own: rows lost, counted, nothing else."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from typing import Any

from slurm_io.collectors.base import Availability, Collector, Context, Row, SlowsItself, Tick

_NS = 1_000_000_000
_LARGEST_CHILD_S = 30.0  # more than any probe of ours: that was somebody else's child
_LOOK_AGAIN_NS = 30 * _NS  # for a source that is absent: a mount may come later


@dataclass
class Usage:
    """What a collector did and cost. `children_cpu_s` is the CPU time of probes it started,
    `helper_cpu_s` that of a helper which still lives and so has not been waited for."""

    runs: int = 0
    failures: int = 0
    cpu_ns: int = 0
    children_cpu_s: float = 0.0
    helper_cpu_s: float = 0.0
    last_error: str | None = None

    @property
    def all_children_cpu_s(self) -> float:
        """Of children that ended and of those that live."""
        return self.children_cpu_s + self.helper_cpu_s

    def to_dict(self) -> dict[str, Any]:
        """As self.json holds it."""
        return {
            "runs": self.runs,
            "failures": self.failures,
            "cpu_s": round(self.cpu_ns / _NS + self.all_children_cpu_s, 6),
            "last_error": self.last_error,
        }


class Metered:
    """Context manager: adds the CPU time of its block to a :class:`Usage`; swallows exceptions.

    `has_children`: the block may start children and wait for them.
    """

    def __init__(self, usage: Usage, has_children: bool = False) -> None:
        self._usage = usage
        self._has_children = has_children

    def __enter__(self) -> None:
        self._children_s = children_cpu_s() if self._has_children else 0.0
        self._cpu_ns = time.process_time_ns()

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        usage = self._usage
        if error is not None and not isinstance(error, Exception):
            return False  # left behind, perhaps for hours: what others used since is not its own
        usage.cpu_ns += time.process_time_ns() - self._cpu_ns
        if self._has_children:
            children_s = children_cpu_s() - self._children_s
            # A helper that ended brings in at once what it used in all its life.
            is_ours = children_s < _LARGEST_CHILD_S + usage.helper_cpu_s
            usage.children_cpu_s += children_s if is_ours else 0.0
        usage.runs += 1
        if isinstance(error, Exception):
            usage.failures += 1
            usage.last_error = f"{type(error).__name__}: {error}"[:300]
            return True
        return False


class CollectorRunner:
    """One collector with its period. `factor` stretches the period (the governor's doing)."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.usage = Usage()
        self.factor = 1
        self.availability = Availability("off", "not opened")
        self._last_ns: int | None = None
        self._context: Context | None = None
        self._looked_ns: int | None = None

    def open(self, context: Context) -> None:
        """Open the source; a failure leaves it off with the reason."""
        self._context = context
        try:
            self.availability = self.collector.open(context)
        except Exception as error:  # noqa: BLE001 - the other sources go on
            self.availability = Availability("off", f"{type(error).__name__}: {error}"[:300])

    def rows(self, ts_ns: int, mono_ns: int, slack_ns: int) -> list[Row]:
        """Rows when due, else none; `slack_ns` early is still due."""
        if self.availability.state == "absent":
            self._look_again(mono_ns)
        if self.availability.state in ("off", "absent") or not self._is_due(mono_ns + slack_ns):
            return []
        interval_ns = None if self._last_ns is None else mono_ns - self._last_ns
        self._last_ns = mono_ns
        rows: list[Row] = []
        with Metered(self.usage, has_children=True):
            rows = self.collector.collect(Tick(ts_ns, mono_ns, interval_ns))
        self.usage.helper_cpu_s = getattr(self.collector, "helper_cpu_s", 0.0)
        return rows

    def slow_down(self, factor: int) -> None:
        """Collect only every `factor` periods. A source that is polled more often than it looks
        stretches its own period of looking."""
        if isinstance(self.collector, SlowsItself):
            self.collector.slow_down(factor)
        else:
            self.factor = factor

    def facts(self) -> dict[str, Any]:
        """The collector's entry of ``sources`` in meta.json."""
        facts: dict[str, Any] = {}
        if self.availability.state not in ("off", "absent"):
            try:
                facts = dict(self.collector.facts())
            except Exception as error:  # noqa: BLE001 - facts are worth less than the rest
                facts = {"facts_error": f"{type(error).__name__}: {error}"[:300]}
        availability = self.availability
        return {"state": availability.state, "reason": availability.reason, **facts}

    def close(self) -> None:
        """Close the source, whatever it thinks of that."""
        with Metered(self.usage, has_children=True):
            self.collector.close()
        self.usage.helper_cpu_s = getattr(self.collector, "helper_cpu_s", 0.0)

    def _look_again(self, mono_ns: int) -> None:
        looked_ns, context = self._looked_ns, self._context
        if looked_ns is None:
            self._looked_ns = mono_ns
        elif context is not None and mono_ns - looked_ns >= _LOOK_AGAIN_NS * self.factor:
            self._looked_ns = mono_ns
            with Metered(self.usage):
                self.open(context)

    def _is_due(self, mono_ns: int) -> bool:
        period_ns = int(self.collector.period_s * self.factor * _NS)
        return self._last_ns is None or mono_ns - self._last_ns >= period_ns


def children_cpu_s() -> float:
    """CPU seconds of all children waited for so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

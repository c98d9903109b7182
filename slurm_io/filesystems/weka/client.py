"""One Weka client's counters from reading to reading, by class of operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from slurm_io.filesystems.client_counters import ClientCounters, OpClass
from slurm_io.filesystems.mean_since_load import MeanSoFar, interval_mean_ns
from slurm_io.filesystems.weka.stat import WekaOperation, WekaStat, class_of

_NS_PER_MS = 1e6
_USER_STEP_NS = 1000
_KERNEL_STEP_NS = 1


class ClassReading(NamedTuple):
    """Totals of one class, and its means since the reading before; None = unknown."""

    counters: ClientCounters
    rtt_ms: float | None
    exe_ms: float | None


class WekaClient:
    """What was read before, and what the readings say together.

    Attributes:
        known, too_coarse: intervals with operations whose mean times could and could not be told.
    """

    def __init__(self) -> None:
        self.known = 0
        self.too_coarse = 0
        self._first: dict[str, WekaOperation] = {}
        self._last: dict[str, WekaOperation] = {}

    def take(self, stat: WekaStat) -> dict[OpClass, ClassReading]:
        """Note a reading; what it says of each class that has a line."""
        now = {each.name: each for each in stat.operations}
        before, self._last = self._last, now
        if not self._first or any(
            each.ops < before[name].ops for name, each in now.items() if name in before
        ):
            self._first = now
            before = {}
        return {
            op_class: self._reading(before, operations)
            for op_class, operations in _by_class(now.values()).items()
        }

    def means_since_start_ms(self) -> dict[str, float]:
        """Mean time of an operation since the first reading, by class, where it can be told."""
        means = {
            op_class: _mean_ms(self._first, operations, with_kernel=True)
            for op_class, operations in _by_class(self._last.values()).items()
        }
        return {name: round(mean, 3) for name, mean in means.items() if mean is not None}

    def new_longest_ms(self) -> dict[str, float]:
        """Longest time outside the kernel, of operations that became longer than ever since the
        driver was loaded while we looked."""
        return {
            name: last.user_longest_us / 1000
            for name, last in self._last.items()
            if class_of(name) is not None
            and name in self._first
            and last.user_longest_us > self._first[name].user_longest_us
        }

    def _reading(
        self, before: dict[str, WekaOperation], operations: list[WekaOperation]
    ) -> ClassReading:
        total = sum(each.ops for each in operations)
        rtt_ms = exe_ms = None
        moved = [each for each in operations if each.ops != _ops_of(before, each.name)]
        if before and moved:
            rtt_ms = _mean_ms(before, moved, with_kernel=False)
            exe_ms = _mean_ms(before, moved, with_kernel=True)
            self.known += exe_ms is not None
            self.too_coarse += exe_ms is None
        return ClassReading(ClientCounters(ops=total), rtt_ms, exe_ms)


def _ops_of(before: dict[str, WekaOperation], name: str) -> int:
    return before[name].ops if name in before else 0


def _by_class(operations: Iterable[WekaOperation]) -> dict[OpClass, list[WekaOperation]]:
    found: dict[OpClass, list[WekaOperation]] = {}
    for each in operations:
        op_class = class_of(each.name)
        if op_class is not None:
            found.setdefault(op_class, []).append(each)
    return found


def _mean_ms(
    before: dict[str, WekaOperation], operations: list[WekaOperation], with_kernel: bool
) -> float | None:
    nothing = MeanSoFar(0, 0, 0)
    pairs = [
        (
            _so_far(before[each.name], with_kernel) if each.name in before else nothing,
            _so_far(each, with_kernel),
        )
        for each in operations
    ]
    mean_ns = interval_mean_ns(pairs)
    return None if mean_ns is None else mean_ns / _NS_PER_MS


def _so_far(operation: WekaOperation, with_kernel: bool) -> MeanSoFar:
    user_ns = operation.user_mean_us * 1000
    if not with_kernel:
        return MeanSoFar(operation.ops, user_ns, _USER_STEP_NS)
    return MeanSoFar(
        operation.ops, user_ns + operation.kernel_mean_ns, _USER_STEP_NS + _KERNEL_STEP_NS
    )

"""What the helper does: opens the drivers of a job's GPUs, then answers each question with a round.

It is the only process that holds a GPU's driver open. Answers are JSON objects: ``opened`` once (or
``failed``, and the end), then for each question ``mono_ns``, ``cpu_s``, ``rows`` (behind their
clocks), ``xids``, and ``facts`` when they may have changed.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Protocol

from slurm_io.errors import HostError
from slurm_io.gpus.amd.driver import AmdDriver, amd_folders
from slurm_io.gpus.model import Identity, Mark, NoneOfTheJobs, Value, Wish, Xid
from slurm_io.gpus.nvml.seen import seen_by_driver
from slurm_io.host.helper import Channel

NAME = "slurm_io_gpu"
_FACTS_EVERY = 10


class Driver(Protocol):
    """One vendor's."""

    vendor: str
    lost: dict[str, str]
    doubt: str

    def identities(self) -> list[Identity]:
        """The GPUs read."""

    def read(self, mono_ns: int) -> tuple[list[list[Value]], list[Xid]]:
        """Rows and Xids; HostError when the driver is gone."""

    def facts(self) -> dict[str, Any]:
        """``lost``, ``unknown``, ``processes``, ``instances``."""

    def versions(self) -> dict[str, str | None]:
        """Of driver and library."""


class Round:
    """Rounds over all drivers."""

    def __init__(self, drivers: list[Driver]) -> None:
        self._drivers = drivers
        self._number = 0
        self._lost = 0

    def read(self) -> dict[str, Any]:
        """One answer."""
        mono_ns = time.monotonic_ns()
        rows: list[list[Value]] = []
        xids: list[Xid] = []
        for driver in self._drivers:
            of_driver, errors = driver.read(mono_ns)
            rows += of_driver
            xids += errors
        answer: dict[str, Any] = {"mono_ns": mono_ns, "rows": rows, "xids": xids}
        lost = sum(len(driver.lost) for driver in self._drivers)
        if self._number % _FACTS_EVERY < 2 or lost != self._lost:
            answer["facts"] = _together(self._drivers)
        self._number, self._lost = self._number + 1, lost
        answer["cpu_s"] = round(time.process_time(), 6)
        return answer


def serve(
    channel: Channel, wish: Wish, proc_root: Path, sys_root: Path, without: frozenset[int]
) -> None:
    """The helper's life. `without`: numbers of GPUs that hung a helper before."""
    drivers, troubles = open_drivers(wish, proc_root, sys_root, without, Mark(channel.shared))
    if not drivers:
        channel.answer({"failed": "; ".join(troubles) or "no GPU driver is loaded"})
        return
    channel.answer({"opened": _opened(drivers, troubles)})
    rounds = Round(drivers)
    for _ in channel.questions():
        try:
            channel.answer(rounds.read())
        except HostError as error:
            channel.answer({"failed": str(error)})
            return
        if not any(driver.identities() for driver in drivers):
            channel.answer({"failed": "all GPUs of the job are lost"})
            return


def open_drivers(
    wish: Wish, proc_root: Path, sys_root: Path, without: frozenset[int], mark: Mark
) -> tuple[list[Driver], list[str]]:
    """Those that are here, and why one could not be opened.

    That the job has GPUs of the other vendor only is no trouble.
    """

    def nvidia() -> Driver:
        from slurm_io.gpus.nvml.driver import NvmlDriver
        from slurm_io.gpus.nvml.library import find_library

        return NvmlDriver(find_library(), wish, proc_root, mark, without)

    def amd() -> Driver:
        return AmdDriver(wish, sys_root, mark, len(seen_by_driver(proc_root)), without)

    here = [nvidia] if nvidia_is_here(proc_root) else []
    here += [amd] if amd_folders(sys_root) else []
    found: list[Driver] = []
    troubles: list[str] = []
    nothing: list[str] = []
    for opened in here:
        try:
            found.append(opened())
        except NoneOfTheJobs as error:
            nothing.append(str(error))
        except HostError as error:
            troubles.append(str(error))
    return found, troubles if found else troubles + nothing


def nvidia_is_here(proc_root: Path) -> bool:
    """Whether NVIDIA's kernel module is loaded."""
    return (proc_root / "driver" / "nvidia" / "version").exists()


def _opened(drivers: list[Driver], troubles: list[str]) -> dict[str, Any]:
    versions: dict[str, str | None] = {}
    for driver in drivers:
        versions |= driver.versions()
    return {
        **versions,
        "vendors": [driver.vendor for driver in drivers],
        "gpus": [each._asdict() for driver in drivers for each in driver.identities()],
        "doubt": "; ".join(filter(None, (driver.doubt for driver in drivers))),
        "troubles": troubles,
        "lost": _together(drivers)["lost"],
    }


def _together(drivers: list[Driver]) -> dict[str, Any]:
    facts: dict[str, Any] = {"lost": {}, "unknown": {}, "processes": {}, "instances": []}
    for driver in drivers:
        for name, value in driver.facts().items():
            facts[name] = facts[name] + value if isinstance(value, list) else facts[name] | value
    return facts

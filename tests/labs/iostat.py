"""Reads what sysstat's ``iostat -dx`` prints, table or JSON, and runs it beside a test.

The JSON of some versions calls sectors a second "wMB/s" (``-m``) and tables of some languages have
decimal commas, so kilobytes are taken from requests a second times their mean size wherever the
stated number is not that.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

IOSTAT = shutil.which("iostat")
Report = dict[str, dict[str, float]]
"""Device -> column as the table heads it (``r/s``, ``rareq-sz``, ``util`` without its percent)."""

_DIRECTIONS = {"r": "rareq-sz", "w": "wareq-sz", "d": "dareq-sz"}
_ROUNDING = 0.005  # iostat prints two places


def parse_table(text: str) -> list[Report]:
    """The reports of a text output, one for each header line."""
    reports: list[Report] = []
    heads: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if not words:
            heads = []
        elif words[0].rstrip(":") == "Device":
            heads = [head.lstrip("%") if head == "%util" else head for head in words[1:]]
            reports.append({})
        elif len(words) == len(heads) + 1 and heads:
            reports[-1][words[0]] = dict(zip(heads, map(_number, words[1:]), strict=True))
    return reports


def parse_json(text: str) -> list[Report]:
    """The reports of ``-o JSON``."""
    return [
        {
            disk["disk_device"]: {
                name: float(value) for name, value in disk.items() if name != "disk_device"
            }
            for disk in each.get("disk", [])
        }
        for host in json.loads(text)["sysstat"]["hosts"]
        for each in host["statistics"]
    ]


def kilobytes_s(row: dict[str, float], direction: str) -> float:
    """kB a second read ("r"), written or discarded, whatever the row calls its units."""
    requests, size_kb = row[f"{direction}/s"], row[_DIRECTIONS[direction]]
    product, stated = requests * size_kb, row.get(f"{direction}kB/s")
    slack = _ROUNDING * (requests + size_kb + 1)  # either factor may be off by its rounding
    return stated if stated is not None and abs(stated - product) <= slack else product


def _number(word: str) -> float:
    return float(word.replace(",", "."))


class RunningIostat:
    """``iostat -dxk -y DEVICES INTERVAL COUNT``; reports come as they are printed."""

    def __init__(self, devices: Sequence[str], interval_s: int, count: int) -> None:
        assert IOSTAT is not None
        self._devices = devices
        self.process = subprocess.Popen(
            [IOSTAT, "-dxk", "-y", *devices, str(interval_s), str(count)],
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, "LC_ALL": "C"},
        )

    def reports(self) -> Iterator[Report]:
        """Each one as soon as its last device's line is there."""
        assert self.process.stdout is not None
        text = ""
        for line in self.process.stdout:
            text += line
            found = parse_table(text)
            if found and len(found[0]) == len(self._devices):
                text = ""
                yield found[0]

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def running_iostat(devices: Sequence[str], interval_s: int, count: int) -> Iterator[RunningIostat]:
    """A running one, ended with the ``with`` block."""
    iostat = RunningIostat(devices, interval_s, count)
    try:
        yield iostat
    finally:
        iostat.close()

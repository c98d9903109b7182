"""The AMD GPUs of a job, read in rounds from /sys."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from slurm_io.gpus.amd.card import AmdCard, identify
from slurm_io.gpus.choice import choose_for
from slurm_io.gpus.model import Identity, Mark, NoneOfTheJobs, Value, Wish, Xid, row_tail

_SELDOM = 10
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_MOST_GPUS = 64
_XID = "Xids are NVIDIA's; amdgpu's own errors stand in the kernel log"


class AmdDriver:
    """NoneOfTheJobs when none of the job's GPUs is an AMD one. `first` is the number of the first:
    on a node with NVIDIA GPUs too, these count before."""

    vendor = "amd"

    def __init__(
        self, wish: Wish, sys_root: Path, mark: Mark, first: int, without: frozenset[int]
    ) -> None:
        folders = amd_folders(sys_root)
        seen = [identify(folder, first + place) for place, folder in enumerate(folders)]
        chosen = choose_for(wish, seen)
        self.doubt = chosen.doubt
        self.lost: dict[str, str] = {}
        self._mark = mark
        self._cards = [
            AmdCard(folders[place], seen[place].gpu)
            for place in chosen.places
            if seen[place].gpu not in without
        ]
        if not self._cards:
            raise NoneOfTheJobs("none of the job's GPUs is an AMD GPU that can be read")
        self._round = 0

    def identities(self) -> list[Identity]:
        """The GPUs read."""
        return [card.identity for card in self._cards]

    def read(self, mono_ns: int) -> tuple[list[list[Value]], list[Xid]]:
        """Rows of table gpu behind their clocks; there are no Xids."""
        rows = []
        for place, card in enumerate(list(self._cards)):
            self._mark.set(card.identity.gpu)
            everything = self._round < 2 or self._round % _SELDOM == place % _SELDOM
            if everything and card.is_gone():
                self.lost[card.identity.uuid or card.identity.bus] = "the device is gone from /sys"
                self._cards.remove(card)
                card.close()
                continue
            rows.append(row_tail(card.identity, card.read(everything)))
        self._mark.set(None)
        self._round += 1
        return rows, []

    def facts(self) -> dict[str, Any]:
        """Refusals and losses."""
        unknown: dict[str, str] = {"xid": _XID}
        for card in self._cards:
            for column, reason in card.refused().items():
                unknown.setdefault(column, reason)
        return {"lost": dict(self.lost), "unknown": unknown, "processes": {}, "instances": []}

    def versions(self) -> dict[str, str | None]:
        """The driver is the kernel's."""
        return {}


def amd_folders(sys_root: Path) -> list[str]:
    """PCI devices that amdgpu drives, by address."""
    driver = f"{sys_root}/bus/pci/drivers/amdgpu"
    try:
        names = sorted(name for name in os.listdir(driver) if _ADDRESS.fullmatch(name))
    except OSError:
        return []
    return [f"{driver}/{name}" for name in names[:_MOST_GPUS]]

"""A donor: ``dataset serve`` on a node, with a secret that only stdin carries."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from slurm_io.reservation.staging.errand import Errand
from slurm_io.reservation.staging.model import Donor

_POLL_S = 0.05


class Giving:
    """One node that serves. `errand` is started by the caller with :meth:`take_line` as its
    reader of stdout, because serve's one line says where it listens."""

    def __init__(self, donor: Donor, secret: str) -> None:
        self.donor = donor
        self._secret = secret
        self._where: str | None = None
        self._told = threading.Event()
        self.errand: Errand | None = None

    def take_line(self, line: str) -> None:
        """serve's announcement; anything else is left out."""
        if self._told.is_set():
            return
        try:
            told = json.loads(line)
            where = told["where"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return
        if isinstance(where, str) and where.startswith("rsync://"):
            self._where = where
            self._told.set()

    def wait_until_open(self, limit_s: float, stop: threading.Event) -> str | None:
        """None when it serves; else why it does not."""
        assert self.errand is not None
        until_s = time.monotonic() + limit_s
        while not self._told.wait(_POLL_S):
            if self.errand.is_over:
                return self.errand.last_words()
            if stop.is_set() or time.monotonic() > until_s:
                return f"it did not begin to serve within {limit_s:.0f} s"
        return None

    @property
    def is_open(self) -> bool:
        """Whether it serves now."""
        return self._told.is_set() and self.errand is not None and not self.errand.is_over

    def source(self) -> Mapping[str, Any]:
        """As ``dataset stage --sources`` reads it."""
        return {
            "kind": "peer",
            "where": self._where,
            "label": self.donor.node,
            "secret": self._secret,
        }

    def end(self) -> None:
        """Serve no longer."""
        if self.errand is not None:
            self.errand.stop()


def serve_words(
    name: str, donor: Donor, allowed: tuple[str, ...], lifetime_s: float, more: tuple[str, ...]
) -> tuple[str, ...]:
    """The command on the donor."""
    return (
        "dataset",
        "serve",
        name,
        *(f"--allow={host}" for host in allowed),
        f"--host={donor.host}",
        f"--lifetime={lifetime_s:g}",
        *((f"--bwlimit={donor.most_bytes_s}",) if donor.most_bytes_s else ()),
        "--secret-stdin",
        *more,
    )

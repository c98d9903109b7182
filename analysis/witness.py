"""One signal that agrees, or not, with "the loader waited for storage"."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Witness:
    """One signal. `agrees` is None when it could not be heard (`text` says why)."""

    name: str
    agrees: bool | None
    text: str
    metric: str
    value: float | None = None
    threshold: float | None = None

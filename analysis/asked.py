"""What the job asked for that its report looks at: ``price``, ``silence`` and ``ckpt``.

The prolog merged all sources, the partition's defaults among them, and left the result in each
node's checks.json. Without one (checks off, ``slurm-io run``) the job's comment speaks. A store may
hold anything: what is no price and no list of codes counts as not asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slurm_io.analysis.inputs import StoreView
from slurm_io.errors import SpecError
from slurm_io.spec import JobSpec, parse_request


@dataclass(frozen=True)
class Asked:
    """`price_usd_h`: dollars per GPU hour, None = not named. `silence`: codes of rules. `ckpt`: the
    folder that checkpoints go to."""

    price_usd_h: float | None = None
    silence: frozenset[str] = frozenset()
    ckpt: str | None = None


def asked_of(store: StoreView) -> Asked:
    """The wishes of the job whose store this is."""
    for _, view in sorted(store.nodes.items()):
        request = view.checks.get("request") if isinstance(view.checks, dict) else None
        if isinstance(request, dict):
            return Asked(
                _price(request.get("price_usd_h")),
                _codes(request.get("silence")),
                _path(request.get("ckpt")),
            )
    spec = _of_comment(store)
    return Asked(spec.price_usd_h, frozenset(spec.silence or ()), spec.ckpt)


def _of_comment(store: StoreView) -> JobSpec:
    comment = store.job.comment if store.job is not None else None
    try:
        return parse_request(comment or "") or JobSpec()
    except SpecError:
        return JobSpec()  # the job was told so when it started


def _price(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < float("inf") else None


def _path(value: Any) -> str | None:
    return value if isinstance(value, str) and value.startswith("/") else None


def _codes(value: Any) -> frozenset[str]:
    listed = value if isinstance(value, (list, tuple)) else ()
    return frozenset(each for each in listed if isinstance(each, str))

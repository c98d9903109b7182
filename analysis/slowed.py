"""What the sampler's governor left out to keep the sampler's cost within its budget, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_io.analysis.facts import mapping
from slurm_io.analysis.inputs import StoreView

_RARE_HZ = 0.5  # from here on a rank is looked at so seldom that its waits need minutes
_TOLD_OUT_OF_REACH_S = 10.0

Line = tuple[str, str]
"""(source, what of it was not seen)"""


def pace_text(governor: Mapping[str, Any]) -> str | None:
    """How slow the sources went at the job's end; None at full pace."""
    told = sorted(mapping(governor.get("paces")).items())
    paces = {name: number for name, pace in told if (number := _number(pace)) is not None}
    if not paces:
        return None
    waits = paces.pop("waits", None)
    parts = [] if waits is None else [f"looks at each process {_rate(waits)}"]
    discovery = paces.pop("discovery", None)
    parts += [] if discovery is None else [f"for new processes every {discovery:g} s"]
    parts += [f"{name} {pace:g} times less often" for name, pace in paces.items()]
    return ", ".join(parts)


def slowed(store: StoreView) -> list[Line]:
    """Of the nodes on which it went that far: waits seen rarely, and a budget that was not kept."""
    found: list[Line] = []
    for name, view in sorted(store.nodes.items()):
        governor = mapping((view.self_cost or {}).get("governor"))
        waits = _number(mapping(governor.get("paces")).get("waits"))
        if waits is not None and waits < _RARE_HZ:
            why = (
                f"to keep within its budget the sampler looked at each process {_rate(waits)} at "
                "last: shares of waits hold over minutes, not over single steps"
            )
            found.append(("waits", f"{why} (node {name})"))
        found += _over(name, governor)
    return found


def _over(node: str, governor: Mapping[str, Any]) -> list[Line]:
    over_s, budget, share = (
        _number(governor.get(name)) for name in ("out_of_reach_s", "budget_share", "share")
    )
    if over_s is None or over_s < _TOLD_OUT_OF_REACH_S or budget is None:
        return []
    last = f", at last {share:.2%}" if share is not None else ""
    why = (
        f"could not keep its budget of {budget:.2%} of a core for {over_s:.0f} s, "
        f"every source at its slowest{last} (node {node})"
    )
    return [("sampler", why)]


def _rate(hz: float) -> str:
    return f"{hz:g} times a second" if hz >= 1 else f"every {1 / hz:g} s"


def _number(value: object) -> float | None:
    """Above zero, else None: a damaged file may hold anything."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and value > 0 else None  # type: ignore[operator,arg-type]

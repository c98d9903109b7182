"""The words of the fleet: the same for the text and for the page."""

from __future__ import annotations

from slurm_io.reservation.status.model import Fleet
from slurm_io.reservation.status.words import age, some


def fleet_lines(fleet: Fleet) -> list[tuple[str, str]]:
    """The fleet, as (label, text)."""
    needed = "?" if fleet.needed is None else str(fleet.needed)
    lines = [("needed for 99 %", f"{needed}: {fleet.needed_base}"), ("failures", _failures(fleet))]
    worst = some([f"{node} ({count} in 30 days)" for node, count in fleet.lemons], ", ")
    lines.append(("lemons", f"{worst}: retire them before buying spares" if worst else "none"))
    mttr = "?" if fleet.mttr_s is None else f"{age(fleet.mttr_s)}, mean of {fleet.repairs} repairs"
    lines.append(("time to repair", mttr))
    lines.append(("swaps", f"{fleet.swaps} in 30 days"))
    lines += _money(fleet)
    return lines


def _failures(fleet: Fleet) -> str:
    if fleet.observed_s is None:
        return "none recorded: there is no history yet"
    span = f"{fleet.failures} in {age(fleet.observed_s)} of history"
    if fleet.failures_per_week is None:
        return f"{span}, which is too short for a rate"
    return f"{fleet.failures_per_week:.2g} a week ({span})"


def _money(fleet: Fleet) -> list[tuple[str, str]]:
    money = fleet.money
    if money is None:
        return [("cost", f"not known: {fleet.money_text}")]
    avoided = "?" if money.avoided_usd is None else f"{money.avoided_usd:,.0f} USD a week"
    return [
        ("cost of spares", f"{money.spares_usd:,.0f} USD a week ({money.spares_base})"),
        ("cost avoided", f"{avoided} ({money.avoided_base})"),
    ]

"""The spare screen as one HTML page: nothing is loaded from elsewhere, everything is escaped."""

from __future__ import annotations

import importlib.resources

from slurm_io.reservation.status import lines
from slurm_io.reservation.status.fleet_lines import fleet_lines
from slurm_io.reservation.status.model import Phase, SpareStatus, Status
from slurm_io.reservation.status.words import printable

TEMPLATE = "page.html.j2"
_MOST_SPARES = 400
"""A page stays far below 1 MB; who has more spares reads the JSON."""


def render(status: Status) -> str:
    """The page's text."""
    from jinja2 import Environment, StrictUndefined

    source = importlib.resources.files(__package__ or "").joinpath(TEMPLATE).read_text("utf-8")
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: printable(value) if isinstance(value, str) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.from_string(source).render(
        status=status,
        headline=lines.headline(status),
        about=lines.about(status),
        spares=[_spare(spare) for spare in status.spares[:_MOST_SPARES]],
        left_out=max(0, len(status.spares) - _MOST_SPARES),
        fleet=fleet_lines(status.fleet),
        notes=status.notes,
    )


def _spare(spare: SpareStatus) -> dict[str, object]:
    longest_s = max((phase.high_s or 0.0 for phase in spare.estimate.phases), default=0.0)
    return {
        "node": spare.node,
        "state": spare.state,
        "reason": spare.reason,
        "held": lines.data_words(spare),
        "health": lines.health_words(spare),
        "swap": lines.swap_words(spare.estimate),
        "runs": lines.jobs_words(spare),
        "note": spare.estimate.note,
        "details": lines.details(spare),
        "phases": [_phase(phase, longest_s) for phase in spare.estimate.phases],
    }


def _phase(phase: Phase, longest_s: float) -> dict[str, object]:
    """`from_percent` and `width_percent` place the bar of its range."""
    name, took, base = lines.phase_words(phase)
    scale = 100 / longest_s if longest_s else 0.0
    low, high = (phase.low_s or 0.0) * scale, (phase.high_s or 0.0) * scale
    width = max(0.6, high - low)
    return {
        "name": name,
        "took": took,
        "base": base,
        "measured": phase.measured,
        "shown": bool(phase.high_s),
        "from_percent": round(min(low, 100 - width), 2),
        "width_percent": round(width, 2),
    }

"""The spare screen in the form that was asked for."""

from __future__ import annotations

import json

from slurm_io.reservation.status.model import Status


def show(status: Status, form: str, to_terminal: bool = True) -> str:
    """`form`: text, json or html."""
    if form == "json":
        return json.dumps(status.to_dict(), indent=2)
    if form == "html":
        from slurm_io.reservation.status import page

        return page.render(status)
    from slurm_io.reservation.status import text

    width, colour = text.terminal_width() if to_terminal else (text.WIDTH, False)
    return text.render(status, width, colour)

"""Switches the hook on, once a process."""

from __future__ import annotations

from .session import SESSION, debug


def start() -> None:
    """Wait for torch and others to be imported. Does nothing when the hook is off. Never raises."""
    if SESSION.off:
        return
    try:
        from .gc_pauses import start as time_pauses
        from .importer import install

        SESSION.at_ring.append(time_pauses)
        install()
    except Exception as error:
        SESSION.turn_off(error)
    else:
        debug("waiting for torch")

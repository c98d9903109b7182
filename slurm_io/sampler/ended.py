"""Whether a sampler took everything along: only then is there nothing left in the hook's rings."""

from __future__ import annotations

from pathlib import Path

from slurm_io.errors import StoreError
from slurm_io.store.files import read_json_if_there


def ended_by_itself(spool: Path) -> bool:
    """True when ``meta.json`` says so; a sampler that was killed, or never came, said nothing."""
    try:
        meta = read_json_if_there(spool / "meta.json") or {}
    except StoreError:
        return False
    return meta.get("clean_end") is True

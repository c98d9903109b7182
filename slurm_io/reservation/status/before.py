"""What a spare lacks before a swap can begin, as the first phase of its estimate."""

from __future__ import annotations

from slurm_io.reservation.model import DataSays, SpareState
from slurm_io.reservation.status.model import Phase
from slurm_io.reservation.status.words import size


def before(
    state: SpareState,
    reason: str,
    data: DataSays | None,
    same_content: bool | None,
    usual_bytes_s: float | None,
) -> Phase | None:
    """None for one that lacks nothing, or only its jobs' end."""
    if state in ("ready", "busy"):
        return None
    if state not in ("stale", "syncing"):
        return Phase("mend", None, None, None, reason)
    rate = rate_of(data, usual_bytes_s)
    if data is None or data.bytes_behind is None or rate is None:
        return Phase("stage", None, None, None, "how much is missing, or how fast, is not known")
    low_s, base = data.bytes_behind / rate, f"{size(data.bytes_behind)} missing at {size(rate)}/s"
    if same_content is False:
        # Files of another version may have the same size.
        most = max(data.bytes_behind, data.total_bytes or 0) / rate
        return Phase("stage", low_s, most, most, f"at least {base}; it holds another version")
    if data.bytes_behind == 0:
        return Phase("stage", None, None, None, f"nothing is missing by size, but {reason}")
    return Phase("stage", low_s, 1.5 * low_s, 2 * low_s, f"{base}, to half of that")


def rate_of(data: DataSays | None, usual_bytes_s: float | None) -> float | None:
    """Bytes a second that this node's copy had, else those of others; None where none was made."""
    own = data.rate_bytes_s if data is not None else None
    return own or usual_bytes_s or None

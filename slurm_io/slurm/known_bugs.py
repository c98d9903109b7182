"""Faults of Slurm releases that concern reservations and spares, to warn an administrator of.

Source: SchedMD's CHANGELOG, as noted beside each.
"""

from __future__ import annotations

from slurm_io.slurm.version import Version

# (what, first release that has it, releases that mend it: the one of each series)
_BUGS: tuple[tuple[str, Version, tuple[Version, ...]], ...] = (
    ("Nodes=+a,-b with commas is misread; the full list is sent instead",
     (23, 2, 0), ((23, 2, 4),)),
    ("an update of a reservation with an empty list of nodes can end slurmctld",
     (0, 0, 0), ((24, 5, 7), (24, 11, 3))),
    ("slurmctld can end when a dynamic node is removed", (22, 5, 0), ((24, 5, 5),)),
    ("a user or group that cannot be looked up for a moment deletes its reservation",
     (0, 0, 0), ((25, 5, 0),)),
    ("slurmctld can stop for good when it replaces nodes of a reservation",
     (0, 0, 0), ((25, 5, 8), (25, 11, 6), (26, 5, 0))),
)  # fmt: skip


def known_bugs(version: Version) -> tuple[str, ...]:
    """What is wrong in this release, one line each, with the release that mends it."""
    return tuple(
        f"{what} (mended in {_shown(mended)})"
        for what, first, mended in _BUGS
        if version >= first and not _is_mended(version, mended)
    )


def _is_mended(version: Version, mended: tuple[Version, ...]) -> bool:
    own_series = [each for each in mended if each[:2] == version[:2]]
    return any(version >= each for each in own_series or [max(mended)])


def _shown(versions: tuple[Version, ...]) -> str:
    return ", ".join(f"{major}.{minor:02d}.{micro}" for major, minor, micro in versions)

"""Local file systems that hit an error, went read-only or shut themselves down: ext4, xfs, btrfs.

Read-only and shut down are states: they last until the file system is mounted anew, however long
ago they began. Words from fs/ext4/super.c, fs/jbd2, fs/xfs/xfs_{fsops,message,error}.c,
fs/btrfs/messages.c of 4.18 to 6.18.
"""

from __future__ import annotations

import re

from slurm_io.host.kernel_faults.model import Event, Finding, Pattern, View, match_first, softened
from slurm_io.model import CheckAnswer

FAMILY = "filesystem"
STARTS = (
    "EXT4-fs",
    "EXT3-fs",
    "EXT2-fs",
    "Aborting journal on device ",
    "JBD2: ",
    "XFS (",
    "BTRFS",
)

_DEVICE = r"([\w!/.-]{1,64})"
_EXT = r"EXT[234]-fs(?: error| warning)? \((?:device )?" + _DEVICE + r"\):? "
_XFS = r"XFS \(" + _DEVICE + r"\): "
_BTRFS = r"BTRFS(?: \w+)?:? \(device " + _DEVICE + r"(?: state \w+)?\):? "
_PATTERNS: tuple[Pattern, ...] = (
    ("read-only", "Remounting", _EXT + r"Remounting filesystem read-only"),
    ("read-only", "aborted journal", _EXT + r"Detected aborted journal"),
    ("read-only", "Aborting journal", r"Aborting journal on device " + _DEVICE + r"\."),
    ("read-only", "forced readonly", _BTRFS + r"forced readonly"),
    ("shut down", "hutting down", _XFS + r"(?:.{0,200} )?[Ss]hutting down filesystem\.?"),
    ("shut down", "been shut down", _XFS + r"Filesystem has been shut down due to .*"),
    ("shut down", "og I/O", _XFS + r"[Ll]og I/O [Ee]rror .*"),
    ("mounted", "mounted", _EXT + r"(?:re-)?mounted(?: filesystem)?[ .].*"),
    ("mounted", "unmounting", _EXT + r"unmounting filesystem.*"),
    ("mounted", "ount", _XFS + r"(?:Mounting|Unmounting|Ending clean mount)\b.*"),
    ("mounted", "Ending rec", _XFS + r"Ending recovery\b.*"),
    ("mounted", "mount of", _BTRFS + r"(?:first mount of|last unmount of) filesystem .*"),
    ("error", "-fs error (", r"EXT[234]-fs error \(device " + _DEVICE + r"\)(?:: | in ).*"),
    ("error", "writing superblock", _EXT + r"I/O error while writing superblock"),
    ("error", "not happen!!", _EXT + r"This should not happen!! .*"),
    ("error", "ext4_end_bio", _EXT + r"ext4_end_bio:\d+: I/O error .*"),
    ("error", "JBD2: ", r"JBD2: (?:Detected IO errors while flushing file data on"
     r"|(?:Error -5 detected|I/O error) when updating journal superblock for) " + _DEVICE + r"\.?"),
    ("error", "etadata", _XFS + r"[Mm]etadata (?:I/O [Ee]rror|corruption detected).*"),
    ("error", "Internal error", _XFS + r"Internal error .*"),
    ("error", "Corruption", _XFS
     + r"Corruption (?:of in-memory data )?(?:\(0x[0-9a-f]+\) )?detected.*"),
    ("error", "page discard", _XFS + r"page discard on page.*"),
    ("error", "BTRFS",
     r"BTRFS(?: critical| error|: error):? \(device " + _DEVICE + r"(?: state \w+)?\).*"),
    ("checksum", "csum failed",
     r"BTRFS warning \(device " + _DEVICE + r"(?: state \w+)?\): csum failed .*"),
    ("old errors", "error count", _EXT + r"error count since last fsck: [1-9]\d*"),
)  # fmt: skip
_STATES = ("read-only", "shut down", "mounted")
_REMEDY = "unmount and repair it (fsck, xfs_repair), then look at its disks"


def parse(message: str, at_s: float | None) -> Event | None:
    """A local file system's message; None when it tells of no trouble and no new mount."""
    matched = match_first(_PATTERNS, message)
    if matched is None:
        return None
    what, found = matched
    return Event(FAMILY, what, _device(found[1]), at_s, message)


def judge(events: list[Event], view: View) -> list[Finding]:
    """One finding for each file system in trouble."""
    systems: dict[str, list[Event]] = {}
    for event in events:
        systems.setdefault(event.subject, []).append(event)
    found = (_judge_system(device, each, view) for device, each in systems.items())
    return [finding for finding in found if finding is not None]


def _judge_system(device: str, events: list[Event], view: View) -> Finding | None:
    since_mount = _since_mount(events)
    state = next((e.what for e in reversed(since_mount) if e.what in _STATES[:2]), "")
    recent = [event for event in events if view.is_recent(event) and event.what not in _STATES]
    if not (state or recent):
        return None
    use = view.device_use(device)
    what = [event.what for event in recent]
    return Finding(
        FAMILY,
        device,
        softened(_answer(state, what), use),
        "node",
        _text(device, state, what),
        events[-1].at_s,
        {
            "device": device,
            "state": state or None,
            "errors": what.count("error"),
            "checksum_errors": what.count("checksum"),
            "used_by_job": use == "job",
        },
        by_user=view.is_users_device(device),
    )


def _since_mount(events: list[Event]) -> list[Event]:
    for position in range(len(events) - 1, -1, -1):
        if events[position].what == "mounted":
            return events[position + 1 :]
    return events


def _answer(state: str, what: list[str]) -> CheckAnswer:
    return "FAIL" if state or "error" in what else "DEGRADED"


def _text(device: str, state: str, what: list[str]) -> str:
    if state == "read-only":
        return f"file system on {device} went read-only after an error; {_REMEDY}"
    if state:
        return f"file system on {device} shut itself down after an error; {_REMEDY}"
    if "error" in what:
        return f"file system on {device}: {what.count('error')} errors; {_REMEDY}"
    if "checksum" in what:
        count = what.count("checksum")
        return f"file system on {device}: {count} blocks with a wrong checksum; scrub it"
    return f"file system on {device} holds errors of earlier days; fsck it"


def _device(name: str) -> str:
    name = name.replace("!", "/")
    return re.sub(r"-8$|-\d{3,}$", "", name)  # the journal is inode 8, or an inode of its own

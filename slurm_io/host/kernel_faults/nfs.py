"""NFS servers that stopped answering: the last word per server counts.

A hard mount says "not responding, still trying" once per waiting request and transport, and "OK"
when it answers again; programs hang meanwhile. A soft mount says "timed out" for each request that
failed; programs got an error, and the kernel never says "OK" afterwards. The kernel limits how
often it says either, so a server that is seen to answer now has the last word. An automounter asks
any server that a user names: one that the job does not stand on is a note for the admins.

Words from net/sunrpc/clnt.c, fs/nfs/nfs4state.c.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from slurm_io.host.kernel_faults.model import Event, Finding, View
from slurm_io.model import CheckAnswer

FAMILY = "nfs"
STARTS = ("nfs: server ", "nfs4: server ", "lockd: server ", "nfsacl: server ", "NFS: ")
_SOFT_STATE_S = 600.0  # after this silence a soft mount's server may well be back

_SERVER = r"(?:nfs|nfs4|lockd|nfsacl): server (\S{1,255}) "
_WORDS = {
    "not responding, still trying": "hard",
    "not responding, timed out": "soft",
    "OK": "ok",
}
_STATE = _SERVER + "(" + "|".join(_WORDS) + ")"
_RECOVERY = (
    r"NFS: (?:__)?nfs4_reclaim_open_state: Lock reclaim failed!?()"
    r"|NFS: state manager:?(?: .{1,80})? failed on NFSv4 server (\S{1,255}) with error -?\d+"
)


class _State(NamedTuple):
    """What is known of one server after its last message."""

    hung: str = ""  # "", "hard", "soft"
    began_s: float | None = None
    last_s: float | None = None
    outages: int = 0
    outage_s: float | None = None


def parse(message: str, at_s: float | None) -> Event | None:
    """An NFS client message; None when it is not about a server's answers."""
    if found := re.fullmatch(_STATE, message):
        return Event(FAMILY, _WORDS[found[2]], found[1], at_s, message)
    if found := re.fullmatch(_RECOVERY, message):
        return Event(FAMILY, "lost state", found[2] or found[1] or "", at_s, message)
    return None


def judge(events: list[Event], view: View) -> list[Finding]:
    """One finding for each server of which more than "OK" was heard."""
    servers: dict[str, list[Event]] = {}
    for event in events:
        servers.setdefault(event.subject, []).append(event)
    found = (_judge_server(name, of_server, view) for name, of_server in servers.items())
    return [finding for finding in found if finding is not None]


def _judge_server(server: str, events: list[Event], view: View) -> Finding | None:
    state = _State()
    for event in events:
        state = _after(state, event)
    if state.hung and view.is_healthy(FAMILY, server):
        state = state._replace(hung="", outage_s=None)
    lost = any(event.what == "lost state" and view.is_recent(event) for event in events)
    if not state.outages and not lost:
        return None
    hung_now = _hung_now(state, view)
    recent = any(view.is_recent(event) for event in events)
    answer, text = _verdict(server or "a server", state, hung_now, lost, recent)
    use = "job" if view.servers is None else view.servers.get(server, "none" if server else "other")
    return Finding(
        FAMILY,
        server,
        _softened(answer, use),
        "shared",
        text if use != "none" else f"{text} (no mount of it is left)",
        state.last_s,
        {
            "server": server,
            "hung_now": hung_now,
            "events": state.outages,
            "outage_s": None if state.outage_s is None else round(state.outage_s, 3),
            "apps_see": _apps_see(state.hung),
            "used_by_job": use == "job",
        },
        by_user=use != "job",
    )


def _after(state: _State, event: Event) -> _State:
    at_s = event.at_s
    if event.what in ("hard", "soft"):
        if state.hung:
            return _State(event.what, state.began_s, at_s, state.outages, None)
        return _State(event.what, at_s, at_s, state.outages + 1, None)
    if event.what == "ok" and state.hung:
        known = at_s is not None and state.began_s is not None
        outage_s = at_s - state.began_s if known else None  # type: ignore[operator]
        return _State("", None, at_s, state.outages, outage_s)
    return state


def _hung_now(state: _State, view: View) -> bool | None:
    if state.hung != "soft":
        return bool(state.hung)
    age_s = view.age_s(state.last_s)
    return True if age_s is None or age_s <= _SOFT_STATE_S else None


def _verdict(
    server: str, state: _State, hung_now: bool | None, lost: bool, recent: bool
) -> tuple[CheckAnswer, str]:
    if hung_now and state.hung == "hard":
        return "FAIL", f"NFS server {server} does not answer: its mounts hang; ask its admins"
    if hung_now:
        return "FAIL", f"NFS server {server} does not answer: reads and writes fail (soft mount)"
    if hung_now is None and recent:
        return "DEGRADED", f"NFS server {server} let requests fail (soft mount); no news since"
    if lost:
        return "DEGRADED", f"NFS {server}: file locks were lost after a server restart"
    return "OK", f"NFS server {server} did not answer for a while and is back"


def _softened(answer: CheckAnswer, use: str) -> CheckAnswer:
    if use == "job" or answer == "OK":
        return answer
    return "DEGRADED" if use == "other" and answer == "FAIL" else "OK"


def _apps_see(hung: str) -> str | None:
    words = {
        "hard": "hang (D state)",
        "soft": "EIO/ETIMEDOUT, possible data loss: soft mount",
    }
    return words.get(hung)

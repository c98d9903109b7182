"""/proc/fs/beegfs/CLIENT/: servers with their connections, target states, configuration.

The client counts neither bytes nor latencies; these files tell whether its servers are there::

    storage01 [ID: 1]
       Root: <yes>                                          metadata servers only
       Connections: TCP: 4 (192.0.2.4:8003); RDMA: 2 (192.0.2.5:8003 [fallback route]);

    [Target ID: 101] @ beegfs-storage storage01 [ID: 1]: Online / Good

Source: the client module's own printing, ProcFsHelper.c of 7.x and 8.x.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from slurm_io.filesystems.counter_text import counter

_SERVER = re.compile(r"(?P<name>.*) \[ID: (?P<number>[0-9a-fA-F]{1,8})\]")
_CONNECTION = re.compile(
    r"(?P<kind>TCP|SDP|RDMA): (?P<count>\d+)"
    r"(?: \((?P<peer>[^;]*?)(?P<fallback> \[fallback route\])?\))?",
    re.ASCII,
)
_TARGET = re.compile(
    r"\[Target ID: (?P<number>\d{1,9})\] @ (?P<server>.*): (?P<reach>[\w-]+) / (?P<state>[\w-]+)",
    re.ASCII,
)
_CONNECTIONS = "Connections:"


class Connection(NamedTuple):
    """Established connections of one kind to one server, with the peer of the first."""

    kind: str
    established: int
    peer: str | None
    is_fallback: bool


class Server(NamedTuple):
    """A metadata or storage server. `connections` is empty before the first use, too: the client
    opens them when it needs them and drops idle ones."""

    name: str
    number: str
    is_root: bool
    connections: tuple[Connection, ...]


class TargetState(NamedTuple):
    """`reach`: Online, Probably-offline, Offline. `state`: Good, Needs-resync, Bad."""

    number: int
    server: str
    reach: str
    state: str

    @property
    def is_well(self) -> bool:
        """Reachable and in step with its mirror."""
        return self.reach == "Online" and self.state == "Good"


def parse_servers(text: str) -> tuple[tuple[Server, ...], int]:
    """``meta_nodes`` or ``storage_nodes``: the servers, and how many lines were not understood."""
    servers: list[Server] = []
    damaged = 0
    for raw in text.splitlines():
        line = raw.strip()
        if not raw[:1].isspace() and (found := _SERVER.fullmatch(line)):
            servers.append(Server(found["name"], found["number"], False, ()))
        elif servers and line == "Root: <yes>":
            servers[-1] = servers[-1]._replace(is_root=True)
        elif servers and line.startswith(_CONNECTIONS):
            connections, bad = _connections(line.removeprefix(_CONNECTIONS))
            servers[-1] = servers[-1]._replace(connections=connections)
            damaged += bad
        elif line:
            damaged += 1
    return tuple(servers), damaged


def parse_target_states(text: str) -> tuple[tuple[TargetState, ...], int]:
    """``storage_target_state`` or ``meta_target_state``, and how many lines were not understood."""
    states = []
    damaged = 0
    for line in filter(None, map(str.strip, text.splitlines())):
        found = _TARGET.fullmatch(line)
        if found is None:
            damaged += 1
            continue
        states.append(
            TargetState(int(found["number"]), found["server"], found["reach"], found["state"])
        )
    return tuple(states), damaged


def parse_config(text: str) -> dict[str, str]:
    """``config``: the client's settings as it took them (``cfgFile`` names its file)."""
    pairs = (line.partition(" = ") for line in text.splitlines())
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def _connections(text: str) -> tuple[tuple[Connection, ...], int]:
    found = []
    damaged = 0
    for part in filter(None, map(str.strip, text.split(";"))):
        match = _CONNECTION.fullmatch(part)
        count = counter(match["count"]) if match else None
        if match is None or count is None:
            damaged += part != "<none>"
            continue
        found.append(Connection(match["kind"], count, match["peer"], match["fallback"] is not None))
    return tuple(found), damaged

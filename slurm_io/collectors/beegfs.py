"""BeeGFS: whether the client's servers and targets are there. It has no counters.

Source
    /proc/fs/beegfs/CLIENT/ meta_target_state, storage_target_state, meta_nodes, storage_nodes and
    config, every 10 s.

Columns
    No rows: the client counts neither operations nor bytes nor latencies (its statistics lie on the
    servers). The bytes of a job's processes are in the ``process`` table (``read_bytes``), their
    waits in ``waits``. meta.json names per client the servers, how many connections there are of
    which kind, and every target that was not Online and Good, with how often and from when to when
    it was seen so.

Needs
    Nothing: the files are readable by all.

Cost
    Five reads a client every 10 s: 0.1 ms of CPU with one client, 0.4 ms with 10, 3 ms with 100.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_io.collectors.base import COLLECTORS, Availability, Context, Row, Tick
from slurm_io.collectors.client_rows import mount_points
from slurm_io.filesystems.mount_watch import MountWatch
from slurm_io.filesystems.mounts import Mount
from slurm_io.host.kept import KeptFile

if TYPE_CHECKING:
    from slurm_io.filesystems.beegfs.proc import Server

_STATES = {"storage": "storage_target_state", "meta": "meta_target_state"}
_SERVERS = {"storage": "storage_nodes", "meta": "meta_nodes"}
_MOST_SHOWN = 64


class _Client:
    """One client instance: a folder of /proc/fs/beegfs."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.files = {
            file: KeptFile(folder / file)
            for file in (*_STATES.values(), *_SERVERS.values(), "config")
        }
        self.contents: dict[str, bytes] = {}
        self.settings: dict[str, str] = {}
        self.servers: dict[str, tuple[Server, ...]] = {}
        self.targets: dict[str, int] = {}
        self.unwell: dict[str, list[tuple[str, str]]] = {}
        self.seen: dict[str, dict[str, object]] = {}
        self.damaged = 0

    def close(self) -> None:
        """Give the descriptors back."""
        for file in self.files.values():
            file.close()


@COLLECTORS.register("beegfs")
class BeeGfs:
    """Health of BeeGFS clients, in meta.json only."""

    name = "beegfs"
    table = "fsclient"
    period_s = 10.0

    def __init__(self) -> None:
        self._root = Path("/proc/fs/beegfs")
        self._watch = MountWatch(Path("/proc"), _is_beegfs)
        self._clients: dict[str, _Client] = {}

    def open(self, context: Context) -> Availability:
        """Without a BeeGFS mount the parser is not even loaded."""
        self.close()
        self._root = context.proc_root / "fs" / "beegfs"
        self._watch = MountWatch(context.proc_root, _is_beegfs, b" - beegfs")
        self._clients = {}
        self._watch.look()
        if not self._watch.mounts:
            self.close()
            return Availability("absent", "no BeeGFS mount here")
        self._find_clients()
        if not self._clients:
            self.close()
            return Availability("off", f"{self._root} cannot be read")
        return Availability("on")

    def collect(self, tick: Tick) -> list[Row]:
        """Never a row; the states are noted."""
        if self._watch.look(tick.mono_ns):
            self._find_clients()
        for client in self._clients.values():
            _look_at(client, tick)
        return []

    def facts(self) -> dict[str, object]:
        """Servers, connections and targets that were not well."""
        mounts = self._watch.mounts
        return {
            "shared_by": "node",
            "mounts": mount_points(mounts),
            "unknown": {
                "rows": "BeeGFS's client counts neither operations nor bytes nor latencies; bytes "
                "of a job's processes are in the process table"
            },
            "clients": [_facts_of(client, mounts) for client in self._clients.values()],
        }

    def close(self) -> None:
        """Give the descriptors back."""
        self._watch.close()
        for client in self._clients.values():
            client.close()

    def _find_clients(self) -> None:
        try:
            names = set(os.listdir(self._root))
        except OSError:
            names = set()
        for gone in self._clients.keys() - names:
            self._clients.pop(gone).close()
        for name in sorted(names - self._clients.keys()):
            self._clients[name] = _Client(name, self._root / name)


def _is_beegfs(mount: Mount) -> bool:
    return mount.kind == "beegfs"


def _look_at(client: _Client, tick: Tick) -> None:
    from slurm_io.filesystems.beegfs.proc import (
        parse_config,
        parse_servers,
        parse_target_states,
    )

    for kind, file in _STATES.items():
        if (text := _changed(client, file)) is not None:
            states, damaged = parse_target_states(text)
            client.damaged += damaged
            client.targets[kind] = len(states)
            client.unwell[kind] = [
                (f"{kind} target {each.number} @ {each.server}", f"{each.reach} / {each.state}")
                for each in states
                if not each.is_well
            ]
    for kind, file in _SERVERS.items():
        if (text := _changed(client, file)) is not None:
            client.servers[kind], damaged = parse_servers(text)
            client.damaged += damaged
    if (text := _changed(client, "config")) is not None:
        client.settings = parse_config(text)
    for target, state in (each for unwell in client.unwell.values() for each in unwell):
        _note(client.seen, f"{target}: {state}", tick)


def _changed(client: _Client, file: str) -> str | None:
    """The file's text when it is another than before."""
    content = client.files[file].read()
    if content is None or content == client.contents.get(file):
        return None
    client.contents[file] = content
    return content.decode("utf-8", "replace")


def _note(seen: dict[str, dict[str, object]], what: str, tick: Tick) -> None:
    before = seen.get(what)
    if before is None and len(seen) >= _MOST_SHOWN:
        return
    first_ts_ns = tick.ts_ns if before is None else before["first_ts_ns"]
    ticks = 0 if before is None else before["ticks"]
    assert isinstance(ticks, int)
    seen[what] = {"ticks": ticks + 1, "first_ts_ns": first_ts_ns, "last_ts_ns": tick.ts_ns}


def _facts_of(client: _Client, mounts: tuple[Mount, ...]) -> dict[str, object]:
    settings_file = client.settings.get("cfgFile")
    own = [mount for mount in mounts if mount.option("cfgFile") in (None, settings_file)]
    return {
        "client": client.name,
        "mounts": mount_points(own),
        "servers": {kind: len(servers) for kind, servers in client.servers.items()},
        "connections": {kind: _connections(each) for kind, each in client.servers.items()},
        "targets": dict(client.targets),
        "not_well": dict(client.seen),
        "lines_not_understood": client.damaged,
    }


def _connections(servers: tuple[Server, ...]) -> dict[str, int]:
    """How many are established by kind; those over a fallback route are counted once more."""
    found: dict[str, int] = {}
    for connection in (each for server in servers for each in server.connections):
        found[connection.kind] = found.get(connection.kind, 0) + connection.established
        if connection.is_fallback:
            found["fallback"] = found.get("fallback", 0) + connection.established
    return found

"""/proc/wekafs/interface: mounts, front-end processes and error counters of Weka's client.

::

    IO node version 2e694b326b50d08a
    mount:[wc-client0001:sbid-0x31a8] fs698 -o,writecache,…,container_name=client0001
    GW driver_state: DRIVER_ACCEPTING
    Active mounts: 2
    Container=client0001 FE 0: Connected frontend pid 4081176
    Error counters
    NS_num_enospc_errors: 0

The same file is there for each container under /proc/wekafs/CONTAINER/ on newer versions. A client
without its front-end process says "Frontend is not connected": then every operation waits.
Source: weka/csi-wekafs (what its node service reads), Weka's client documentation.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from slurm_io.filesystems.counter_text import counter

_MOUNT = re.compile(r"mount:\[(?P<client>[^\]:]*):(?P<sbid>[^\]]*)\]\s+(?P<name>\S+)(?P<rest>.*)")
_FRONT_END = re.compile(
    r"(?:Container=(?P<container>\S+)\s+)?(?:FE (?P<number>\d{1,9})\s*:?\s*)?(?P<state>.*"
    r"frontend.*)",
    re.IGNORECASE | re.ASCII,
)
_PID = re.compile(r"\bpid (\d{1,10})\b", re.ASCII)
_ERROR = re.compile(r"(?P<name>NS_\w+):\s*(?P<number>\d+)", re.ASCII)
_STATE = re.compile(r"(?:\w+ )?driver_state:\s*(\S+)", re.ASCII)
_ACTIVE = re.compile(r"Active mounts:\s*(\d+)", re.ASCII)


class WekaMount(NamedTuple):
    """One ``mount:`` line; `container` is the option container_name."""

    filesystem: str
    client: str
    container: str | None
    options: tuple[str, ...]


class FrontEnd(NamedTuple):
    """The process that serves the driver. `connected` None: a state we do not know."""

    container: str | None
    number: int | None
    connected: bool | None
    pid: int | None
    state: str


class WekaInterface(NamedTuple):
    """Whole file; what it does not say is None or empty. `damaged` counts lines not understood."""

    version: str | None
    driver_state: str | None
    active_mounts: int | None
    mounts: tuple[WekaMount, ...]
    front_ends: tuple[FrontEnd, ...]
    errors: dict[str, int]
    damaged: int

    @property
    def is_cut_off(self) -> bool:
        """True when a front end says that it is not connected."""
        return any(each.connected is False for each in self.front_ends)


def parse_interface(text: str) -> WekaInterface:
    """Never raises: an unknown line is counted and left out."""
    version: str | None = None
    driver_state: str | None = None
    active_mounts: int | None = None
    mounts: list[WekaMount] = []
    front_ends: list[FrontEnd] = []
    errors: dict[str, int] = {}
    damaged = 0
    for line in map(str.strip, text.splitlines()):
        if found := _MOUNT.fullmatch(line):
            mounts.append(_mount(found))
        elif found := _ERROR.fullmatch(line):
            number = counter(found["number"])
            damaged += number is None
            errors.update({} if number is None else {found["name"]: number})
        elif found := _FRONT_END.fullmatch(line):
            front_ends.append(_front_end(found))
        elif found := _STATE.fullmatch(line):
            driver_state = found[1]
        elif found := _ACTIVE.fullmatch(line):
            active_mounts = counter(found[1])
        elif line.startswith("IO node version "):
            version = line.removeprefix("IO node version ").strip() or None
        elif line and line != "Error counters":
            damaged += 1
    return WekaInterface(
        version, driver_state, active_mounts, tuple(mounts), tuple(front_ends), errors, damaged
    )


def _mount(found: re.Match[str]) -> WekaMount:
    given = found["rest"].strip().removeprefix("-o").split(",")
    options = tuple(option for option in given if option)
    prefix = "container_name="
    names = [option.removeprefix(prefix) for option in options if option.startswith(prefix)]
    return WekaMount(found["name"], found["client"], names[0] if names else None, options)


def _front_end(found: re.Match[str]) -> FrontEnd:
    state = found["state"].strip()
    words = state.lower()
    connected = None
    if "not connected" in words or "disconnected" in words:
        connected = False
    elif "connected" in words:
        connected = True
    pid = _PID.search(state)
    return FrontEnd(
        found["container"],
        int(found["number"]) if found["number"] else None,
        connected,
        int(pid[1]) if pid else None,
        state,
    )

"""PCIe links of NVMe drives and GPUs from /sys: how wide and fast they run, and could.

What a link could do is the lesser of the device's and its port's maximum: a x16 card in a x8 slot
runs well at x8. Speeds are GT/s per lane: 2.5, 5, 8, 16, 32, 64 for generations 1 to 6.
"""

from __future__ import annotations

import os
import re
from typing import Literal, NamedTuple

from slurm_io.host.read import read_optional_line

LinkKind = Literal["nvme", "gpu"]

_DRIVERS: tuple[tuple[str, LinkKind], ...] = (
    ("nvme", "nvme"), ("nvidia", "gpu"), ("amdgpu", "gpu"), ("xe", "gpu"),
)  # fmt: skip
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) GT/s.*")
_NO_LINK_WIDTHS = (0, 255)
_MOST_LANES = 32


class Link(NamedTuple):
    """One device's link. `name` is nvme0 or the like, else the address. Widths in lanes, speeds in
    GT/s; None where the kernel does not say. `link_down`: there
    is a link of no lanes, so a dead one."""

    address: str
    kind: LinkKind
    name: str
    width: int | None
    width_max: int | None
    speed_gts: float | None
    speed_max_gts: float | None
    link_down: bool = False


def read_links(sys_root: str) -> tuple[Link, ...]:
    """Links of all NVMe drives and GPUs that a driver serves, by address.

    The lists of the drivers are read, not all of the machine's PCI devices: there may be hundreds.
    """
    links = [
        _read_link(f"{sys_root}/bus/pci/drivers/{driver}/{address}", address, kind)
        for driver, kind in _DRIVERS
        for address in _addresses(f"{sys_root}/bus/pci/drivers/{driver}")
    ]
    return tuple(sorted(links, key=lambda link: link.address))


def parse_speed(text: str | None) -> float | None:
    """``16.0 GT/s PCIe`` or ``8 GT/s``; None for "Unknown" and anything else."""
    found = _SPEED.fullmatch(text or "")
    return float(found[1]) if found else None


def parse_width(text: str | None) -> int | None:
    """Lanes; None for no number, and for 0 and 255, by which the kernel says that it knows none."""
    if text is None or not (text.isascii() and text.isdigit()):
        return None
    width = int(text[:6])
    return None if width in _NO_LINK_WIDTHS or width > _MOST_LANES else width


def _addresses(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if _ADDRESS.fullmatch(name)]  # noqa: PTH208
    except OSError:
        return []


def _read_link(folder: str, address: str, kind: LinkKind) -> Link:
    port = os.path.dirname(os.path.realpath(folder))  # noqa: PTH120
    width = read_optional_line(f"{folder}/current_link_width")
    width_max = parse_width(read_optional_line(f"{folder}/max_link_width"))
    port_width_max = parse_width(_of_port(port, "max_link_width"))
    return Link(
        address=address,
        kind=kind,
        name=_name(folder, address),
        width=parse_width(width),
        width_max=min(width_max, port_width_max or width_max) if width_max else None,
        speed_gts=parse_speed(read_optional_line(f"{folder}/current_link_speed")),
        speed_max_gts=_lesser(
            parse_speed(read_optional_line(f"{folder}/max_link_speed")),
            parse_speed(_of_port(port, "max_link_speed")),
        ),
        link_down=width == "0" and width_max is not None,
    )


def _of_port(port: str, name: str) -> str | None:
    """An attribute of the port above; None for a root complex, which has none."""
    return read_optional_line(f"{port}/{name}")


def _lesser(own: float | None, of_port: float | None) -> float | None:
    if own is None or of_port is None:
        return own
    return min(own, of_port)


def _name(folder: str, address: str) -> str:
    try:
        names = sorted(os.listdir(f"{folder}/nvme"))  # noqa: PTH208
    except OSError:
        names = []
    return names[0] if names else address

"""Bytes of network interfaces (/proc/net/dev) and InfiniBand ports (/sys/class/infiniband).

Interfaces are stacked as disks are: a bond, bridge or VLAN counts what the card below it counted.
Only cards are counted where there are any; in a container without cards, what has nothing below.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from slurm_io.host.fields import first_number
from slurm_io.host.kept import KeptFile

Bytes = tuple[int, int]
"""Received and sent bytes since the interface appeared."""

_IB_WORD_BYTES = 4
_IB_STOPS_AT_WORDS = 0xFFFFFFFF


class Interfaces:
    """Byte counters of the interfaces that count; `names` are those of the last reading."""

    def __init__(self, proc_root: Path, sys_root: Path) -> None:
        self._source = KeptFile(proc_root / "net" / "dev")
        self._sys_root = sys_root
        self._present: frozenset[bytes] = frozenset()
        self._counted: frozenset[bytes] = frozenset()

    @property
    def names(self) -> list[str]:
        """Interfaces that are counted."""
        return sorted(name.decode() for name in self._counted)

    def read(self) -> dict[bytes, Bytes] | None:
        """Name -> bytes; None when the source cannot be read or no interface but lo is there."""
        content = self._source.read()
        if content is None:
            return None
        lines = [line.partition(b":") for line in content.split(b"\n") if b":" in line]
        present = frozenset(name.strip() for name, _, _ in lines)
        if present != self._present:
            self._present = present
            self._counted = counted_interfaces(self._sys_root, present)
        found = {
            name.strip(): (int(fields[0]), int(fields[8]))
            for name, _, rest in lines
            if name.strip() in self._counted and len(fields := rest.split()) > 8
        }
        return found or None

    def close(self) -> None:
        """Give the descriptor back."""
        self._source.close()


class InfinibandPorts:
    """Byte counters of all ports of all adapters, RoCE included."""

    def __init__(self, sys_root: Path) -> None:
        folders = sorted((sys_root / "class" / "infiniband").glob("*/ports/*/counters"))
        self._ports = {
            f"{folder.parts[-4]}/{folder.parts[-2]}".encode(): (
                KeptFile(folder / "port_rcv_data"),
                KeptFile(folder / "port_xmit_data"),
            )
            for folder in folders
        }

    @property
    def names(self) -> list[str]:
        """Ports as ``adapter/port``."""
        return [name.decode() for name in self._ports]

    def read(self) -> dict[bytes, Bytes] | None:
        """Port -> bytes; ports that cannot be read are left out; None when none is left."""
        found = {}
        for name, (received, sent) in self._ports.items():
            pair = (_words(received), _words(sent))
            if pair[0] is not None and pair[1] is not None:
                found[name] = (pair[0] * _IB_WORD_BYTES, pair[1] * _IB_WORD_BYTES)
        return found or None

    def close(self) -> None:
        """Give the descriptors back."""
        for pair in self._ports.values():
            for source in pair:
                source.close()


def counted_interfaces(sys_root: Path, present: Iterable[bytes]) -> frozenset[bytes]:
    """Those of `present` whose bytes may be added up."""
    folder = sys_root / "class" / "net"
    lowest = [
        name
        for name in present
        if name != b"lo" and not any((folder / name.decode()).glob("lower_*"))
    ]
    cards = [name for name in lowest if (folder / name.decode() / "device").exists()]
    return frozenset(cards or lowest)


def moved_bytes(before: dict[bytes, Bytes] | None, now: dict[bytes, Bytes] | None) -> Bytes | None:
    """Bytes received and sent between two readings by what is in both.

    Something whose counter went back was made anew and is left out. None when nothing is left.
    """
    if before is None or now is None:
        return None
    pairs = [(before[name], now[name]) for name in before.keys() & now.keys()]
    steady = [(old, new) for old, new in pairs if new[0] >= old[0] and new[1] >= old[1]]
    if not steady:
        return None
    return (
        sum(new[0] - old[0] for old, new in steady),
        sum(new[1] - old[1] for old, new in steady),
    )


def _words(source: KeptFile) -> int | None:
    content = source.read()
    words = first_number(content) if content is not None else None
    # Counters of old adapters are 32 bits wide and stop at their ceiling instead of wrapping.
    return None if words == _IB_STOPS_AT_WORDS else words

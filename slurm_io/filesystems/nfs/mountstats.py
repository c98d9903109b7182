"""/proc/self/mountstats: what each NFS mount of a mount namespace has done since it was mounted.

One block for each mount, in the order of mountinfo (fs/nfs/super.c nfs_show_stats)::

    device SERVER:/export mounted on /mnt with fstype nfs4 statvers=1.1
        opts:   rw,vers=4.2,…
        age:    5547
        …
        bytes:  eight numbers
        RPC iostats version: 1.0  p/v: 100003/4 (nfs)
        xprt:   tcp …                    as many as there are connections
        per-op statistics
                READ: …

Other file systems have the first line only, without ``statvers``. Lines are known by their label
and never by their place: kernels and drivers add some. Mounts of one superblock (one export mounted
twice, or several folders of one server's file system) repeat the same counters.
"""

from __future__ import annotations

from typing import NamedTuple

from slurm_io.filesystems.mounts import unescape
from slurm_io.filesystems.nfs.operations import Operation, parse_operation
from slurm_io.filesystems.nfs.transports import Transport, parse_transport

_LARGEST = 1 << 63
_FSTYPES = (b"nfs", b"nfs4")
_OPERATIONS = b"\tper-op statistics"
_MOST_DIGITS = 20  # of a 64-bit number


class Head(NamedTuple):
    """The first line of a block."""

    device: str
    mount_point: str
    fstype: str
    statvers: str | None


class Payload(NamedTuple):
    """The ``bytes:`` line. `server_read` and `server_write` are file contents moved over the wire,
    headers not counted; the others are what read(2), write(2), direct I/O and the page cache saw,
    the last two in pages."""

    normal_read: int
    normal_write: int
    direct_read: int
    direct_write: int
    server_read: int
    server_write: int
    read_pages: int
    write_pages: int


class NfsMount(NamedTuple):
    """One block. `options` are those of ``opts:``, `labels` all other labelled lines as text
    (``caps``, ``sec``, ``nfsv4``, those of other drivers), `unread_lines` how many were damaged."""

    head: Head
    options: tuple[str, ...]
    age_s: int | None
    events: tuple[int, ...]
    payload: Payload | None
    rpc_version: str | None
    transports: tuple[Transport, ...]
    operations: dict[str, Operation]
    labels: dict[str, str]
    unread_lines: int

    def option(self, name: str) -> str | None:
        """Value of ``name=value`` among the options."""
        prefix = name + "="
        found = (option for option in self.options if option.startswith(prefix))
        return next((option[len(prefix) :] for option in found), None)


def split_mounts(content: bytes) -> list[bytes]:
    """The block of each NFS mount with statistics, first line included, in the file's order."""
    blocks = (b"\n" + content).split(b"\ndevice ")[1:]
    return [block.partition(b"\nno device ")[0] for block in blocks if _is_nfs(block)]


def parse_mountstats(content: bytes) -> tuple[NfsMount, ...]:
    """All NFS mounts of a mountstats file; none is no error."""
    return tuple(parse_mount(block) for block in split_mounts(content))


def parse_head(block: bytes) -> Head:
    """Device, mount point and type of a block that :func:`split_mounts` gave."""
    line = _line(block)
    front, _, end = line.rpartition(" with fstype ")
    device, _, mount_point = front.partition(" mounted on ")
    fstype, _, rest = end.partition(" ")
    statvers = rest.partition("statvers=")[2].split(" ")[0]
    return Head(unescape(device), unescape(mount_point), fstype, statvers or None)


def parse_mount(block: bytes) -> NfsMount:
    """One block of :func:`split_mounts`. Damaged lines are left out and counted."""
    front, _, back = block.partition(_OPERATIONS)
    transports: list[Transport] = []
    labels: dict[str, str] = {}
    unread = 0
    for line in front.split(b"\n")[1:]:
        label, colon, rest = line.strip().partition(b":")
        if not colon:
            unread += bool(label)
        elif label == b"xprt":
            transport = parse_transport(rest)
            transports += [] if transport is None else [transport]
            unread += transport is None
        else:
            labels.setdefault(label.decode("utf-8", "replace"), _text(rest))
    operations, damaged = parse_operations(back)
    payload = parse_payload(labels.pop("bytes", "").encode())
    return NfsMount(
        head=parse_head(block),
        options=tuple(labels.pop("opts", "").split(",")),
        age_s=_first_number(labels.pop("age", "")),
        events=_numbers(labels.pop("events", "")) or (),
        payload=payload,
        rpc_version=labels.pop("RPC iostats version", "").split(" ")[0] or None,
        transports=tuple(transports),
        operations=operations,
        labels=labels,
        unread_lines=unread + damaged,
    )


def parse_operations(lines: bytes) -> tuple[dict[str, Operation], int]:
    """Operations by name, and how many lines were damaged."""
    found: dict[str, Operation] = {}
    unread = 0
    for line in lines.split(b"\n"):
        operation = parse_operation(line)
        if operation is not None:
            found[operation[0]] = operation[1]
        else:
            unread += bool(line.strip())
    return found, unread


def parse_payload(text: bytes) -> Payload | None:
    """What follows ``bytes:``; None when it is not eight possible numbers."""
    numbers = _numbers(text.decode("ascii", "replace"))
    return Payload(*numbers[:8]) if numbers is not None and len(numbers) >= 8 else None


def age_of(block: bytes) -> int | None:
    """Seconds since the superblock was mounted. A remark may follow the number."""
    start = block.find(b"\n\tage:")
    return None if start < 0 else _first_number(_text(block[start + 6 : start + 40]))


def behind_age(block: bytes) -> bytes:
    """The block without what comes up to its age, which alone changes on an idle mount."""
    age = block.find(b"\n\tage:")
    return block[block.find(b"\n", age + 1) :]


def _is_nfs(block: bytes) -> bool:
    end = block.find(b"\n")
    line = block if end < 0 else block[:end]
    words = line.rpartition(b" with fstype ")[2].split()
    return len(words) > 1 and words[0] in _FSTYPES and words[1].startswith(b"statvers=")


def _line(block: bytes) -> str:
    end = block.find(b"\n")
    return (block if end < 0 else block[:end]).decode("utf-8", "surrogateescape")


def _text(rest: bytes) -> str:
    return rest.strip().decode("utf-8", "replace")


def _first_number(text: str) -> int | None:
    words = text.split(None, 1)
    return int(words[0]) if words and _is_number(words[0]) else None


def _numbers(text: str) -> tuple[int, ...] | None:
    words = text.split()
    if not words or not all(map(_is_number, words)):
        return None
    numbers = tuple(map(int, words))
    return numbers if max(numbers) < _LARGEST else None


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS

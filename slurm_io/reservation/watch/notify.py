"""Words to systemd: ready, still alive, stopping. A datagram to the socket that it names."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping


def notify_systemd(message: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send ``READY=1``, ``WATCHDOG=1``, ``STOPPING=1`` or ``STATUS=…``; False where nobody
    listens. A name that begins with ``@`` is an abstract socket."""
    address = environment.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return False
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
    ):
        sender.setblocking(False)
        sender.sendto(message.encode(), address.replace("@", "\0", 1))
        return True
    return False

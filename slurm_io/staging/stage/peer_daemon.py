"""The serving side: an rsync daemon for one dataset, one secret, some hosts and some hours.

This process listens and decides who gets in; each connection is then an rsync of its own, on that
socket. So the port is free without a race, the number of connections has a limit, somebody who
does not know the secret is shown the door after seconds, and everything ends with us. The folder
is held open: its path may be swapped meanwhile without effect.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Self

from slurm_io.errors import HostError
from slurm_io.host.run import find_tool
from slurm_io.staging.stage.peer_files import peer_files
from slurm_io.staging.stage.peer_guests import Guests
from slurm_io.staging.stage.peer_model import MODULE, USER, Announcement, Serving

_TICK_S = 0.5
_BACKLOG = 64
NotServable = Callable[[int], str | None]
"""Open folder -> why it must not be served, None when it may."""


class NotReady(HostError):
    """The copy here is not one to hand on."""


class PeerDaemon:
    """Serves from ``with`` to its end. Raises HostError, NotReady, OSError when it cannot."""

    def __init__(self, serving: Serving, not_servable: NotServable) -> None:
        self._serving = serving
        self._not_servable = not_servable
        self._stack = contextlib.ExitStack()
        self._began_s = time.monotonic()
        self._busy_s = self._began_s
        self._parent = os.getppid()

    def __enter__(self) -> Self:
        it = self._serving
        with contextlib.ExitStack() as stack:
            self._root_fd = os.open(it.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, self._root_fd)
            if (why := self._not_servable(self._root_fd)) is not None:
                raise NotReady(f"{it.path} is not served: {why}")
            self._listener = stack.enter_context(self._listening())
            allow = [str(network) for network in it.allow]
            files = stack.enter_context(peer_files(self._root_fd, it.secret, allow))
            self._guests = Guests(
                _argv(files.config), it.connections_max, it.greet_s, it.bandwidth_bytes_s
            )
            stack.callback(self._guests.end)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    @property
    def port(self) -> int:
        """The one it listens on."""
        return int(self._listener.getsockname()[1])

    def announcement(self, with_secret: bool) -> Announcement:
        """What a fetching node must know."""
        it = self._serving
        secret = it.secret if with_secret else None
        until = int(time.time() + it.lifetime_s)
        return Announcement(
            it.host, self.port, USER, MODULE, secret, it.content_id, until, it.connections_max
        )

    def serve(self, stop: threading.Event) -> str | None:
        """Until `stop`, or no longer needed: None; a reason when the copy must not be served."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while not stop.is_set() and not self._is_over():
                if (why := self._not_servable(self._root_fd)) is not None:
                    return why
                if selector.select(_TICK_S):
                    self._greet()
                if self._guests.look():
                    self._busy_s = time.monotonic()
        return None

    def _listening(self) -> socket.socket:
        it = self._serving
        family = socket.AF_INET6 if ":" in it.bind or not it.bind else socket.AF_INET
        both = not it.bind and socket.has_dualstack_ipv6()
        listener = socket.create_server(
            (it.bind, it.port),
            family=family if both or it.bind else socket.AF_INET,
            backlog=_BACKLOG,
            dualstack_ipv6=both,
        )
        listener.setblocking(False)
        return listener

    def _greet(self) -> None:
        """Let one in, if it may and there is room."""
        try:
            connection, address = self._listener.accept()
        except OSError:
            return
        with connection:
            if self._guests.is_full or not self._may_come(str(address[0])):
                return
            connection.setblocking(True)
            with contextlib.suppress(OSError):
                self._guests.let_in(connection)

    def _may_come(self, text: str) -> bool:
        address = ipaddress.ip_address(text.partition("%")[0])
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._serving.allow)

    def _is_over(self) -> bool:
        """Whether time is up, nobody comes any more, or who started us is gone."""
        now_s = time.monotonic()
        return (
            now_s - self._began_s > self._serving.lifetime_s
            or now_s - self._busy_s > self._serving.idle_s
            or os.getppid() != self._parent
        )


def _argv(config: str) -> list[str]:
    rsync = find_tool("rsync")
    if rsync is None:
        raise HostError("rsync is not installed (package rsync)")
    return [rsync, "--daemon", f"--config={config}"]

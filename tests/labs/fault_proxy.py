"""A TCP proxy that spoils what a server answers: cut, flipped, reset or stalled at a byte.

    with FaultProxy(("127.0.0.1", port)) as proxy:
        proxy.spoil(Fault("flip", at=500_000), times=1)
        fetch(proxy.port)

`at` counts the bytes from the server on one connection. A fault befalls the next `times`
connections that come so far; later ones are passed on untouched.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

_CHUNK_BYTES = 65536
_LOOK_S = 0.05
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_BOTH_WAYS = socket.SHUT_RDWR


@dataclass(frozen=True)
class Fault:
    """`cut` ends the connection in peace, `reset` without; `flip` changes one bit of the byte;
    `stall` sends nothing more until the proxy ends."""

    kind: Literal["cut", "flip", "reset", "stall"]
    at: int


class FaultProxy:
    """Listens on `port` of 127.0.0.1. `struck`: how many faults have happened."""

    def __init__(self, server: tuple[str, int]) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._fault: Fault | None = None
        self._left = 0
        self.struck = 0
        self._has_struck = threading.Event()
        self._ended = threading.Event()
        self._open: list[socket.socket] = []

    def spoil(self, fault: Fault, times: int = 1) -> None:
        """From now on."""
        with self._lock:
            self._fault, self._left = fault, times

    def forget(self) -> None:
        """No fault has happened yet."""
        with self._lock:
            self.struck = 0
            self._has_struck.clear()

    def wait_struck(self, timeout_s: float) -> bool:
        """Whether a fault has happened; waits for one."""
        return self._has_struck.wait(timeout_s)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._open:
            _abort(each)

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
            except OSError:
                continue
            self._open += [client, server]
            threading.Thread(target=_pass_on, args=(client, server), daemon=True).start()
            threading.Thread(target=self._answer, args=(client, server), daemon=True).start()

    def _answer(self, client: socket.socket, server: socket.socket) -> None:
        """From the server to the client, spoilt where it is its turn."""
        sent = 0
        with contextlib.suppress(OSError):
            while data := server.recv(_CHUNK_BYTES):
                fault = self._due(sent, len(data))
                if fault is not None:
                    place = fault.at - sent
                    if fault.kind != "flip":
                        client.sendall(data[:place])
                        self._end(fault, client, server)
                        return
                    data = data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]
                client.sendall(data)
                sent += len(data)
        with contextlib.suppress(OSError):  # also when the server has reset it
            client.shutdown(socket.SHUT_WR)

    def _due(self, sent: int, length: int) -> Fault | None:
        with self._lock:
            fault = self._fault
            if fault is None or not self._left or not sent <= fault.at < sent + length:
                return None
            self._left -= 1
            self.struck += 1
            self._has_struck.set()
            return fault

    def _end(self, fault: Fault, client: socket.socket, server: socket.socket) -> None:
        if fault.kind == "stall":
            while not self._ended.wait(_LOOK_S) and not _has_left(client):
                pass
        elif fault.kind == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            client.close()
        else:
            client.shutdown(socket.SHUT_WR)
        _abort(server)


def _has_left(client: socket.socket) -> bool:
    """Whether it has closed its side: then the server must learn of it, stalled or not."""
    try:
        return client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK_BYTES):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def _abort(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(_BOTH_WAYS)
    connection.close()

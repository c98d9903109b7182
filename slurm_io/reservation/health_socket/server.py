"""The gRPC server on a Unix socket. Clients are ordinary users, and hostile ones among them.

What they may use is bounded: bytes of a request and of its headers, calls at once, time without a
word, connections (by the limit of open files). Answers come from memory.
"""

from __future__ import annotations

import os
import resource
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from slurm_io.errors import HostError, UsageError
from slurm_io.host.root_folders import trusted_folder
from slurm_io.reservation.health_socket.cached import CachedHealth
from slurm_io.reservation.health_socket.messages import (
    LONGEST_REQUEST_BYTES,
    METHOD,
    read_request,
    write_answer,
)

MOST_CALLS = 64
MOST_FILES = 512
_OPTIONS = (
    ("grpc.max_receive_message_length", LONGEST_REQUEST_BYTES),
    ("grpc.max_metadata_size", 8192),
    ("grpc.absolute_max_metadata_size", 16384),
    ("grpc.max_concurrent_streams", MOST_CALLS),
    ("grpc.max_connection_idle_ms", 10_000),
    ("grpc.max_connection_age_ms", 60_000),
    ("grpc.max_connection_age_grace_ms", 1_000),
    ("grpc.server_handshake_timeout_ms", 5_000),
    ("grpc.so_reuseport", 0),
)


def serve(path: str, health: CachedHealth, ready: Callable[[], None] = lambda: None) -> None:
    """Answer on the socket `path` until the process is interrupted; its folder must be root's own.

    Raises UsageError without grpcio, HostError when the socket cannot be had.
    """
    grpc = _grpc()
    place = Path(path).absolute()
    with trusted_folder(str(place.parent), create=True) as descriptor:
        _free(descriptor, place.name, path)
        resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_FILES, MOST_FILES))
        server = grpc.server(
            ThreadPoolExecutor(4, "health"), maximum_concurrent_rpcs=MOST_CALLS, options=_OPTIONS
        )
        server.add_generic_rpc_handlers((_handlers(grpc, health),))
        try:
            server.add_insecure_port(f"unix:{place}")
        except RuntimeError as error:
            raise HostError(f"{path}: cannot listen there: {error}") from error
        os.chmod(place.name, 0o666, dir_fd=descriptor)
    keeper = threading.Thread(target=health.keep_fresh, daemon=True)
    server.start()
    keeper.start()
    ready()
    try:
        server.wait_for_termination()
    finally:
        health.end()
        server.stop(0)


def _handlers(grpc: Any, health: CachedHealth) -> Any:
    def answer(arguments: tuple[str, ...] | ValueError, context: Any) -> bytes:
        # Which checks count is the site's choice, not the caller's.
        if isinstance(arguments, ValueError):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "this is no request")
        found = health.now()
        fine = not found.failed
        return write_answer(fine, 0 if fine else 1, found.output(time.time()))

    service, _, call = METHOD[1:].partition("/")
    handler = grpc.unary_unary_rpc_method_handler(answer, request_deserializer=_request)
    return grpc.method_handlers_generic_handler(service, {call: handler})


def _request(data: bytes) -> tuple[str, ...] | ValueError:
    """Raised, an error here would fill the log with a traceback for all nonsense of users."""
    try:
        return read_request(data)
    except ValueError as error:
        return error


def _free(folder: int, name: str, path: str) -> None:
    """Take away the socket of an earlier server; nothing else is ever removed."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise HostError(f"{path}: something else than a socket is there: choose another path")
    os.unlink(name, dir_fd=folder)


def _grpc() -> Any:
    try:
        import grpc
    except ImportError:
        raise UsageError("the health socket needs grpcio: pip install 'slurm_io[nvrx]'") from None
    return grpc

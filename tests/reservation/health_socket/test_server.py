"""The socket, with real gRPC clients and with hostile ones."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_io.errors import HostError
from slurm_io.reservation.health_socket.cached import CachedHealth, NodeHealth, check_node
from slurm_io.reservation.health_socket.messages import METHOD
from slurm_io.reservation.health_socket.server import MOST_FILES, serve

grpc = pytest.importorskip("grpc")

SERVER = """
import json, sys, time
from slurm_io.reservation.health_socket.cached import CachedHealth, NodeHealth
from slurm_io.reservation.health_socket.server import serve
def ask():
    return NodeHealth(time.time(), tuple(map(tuple, json.loads(open(sys.argv[2]).read()))))
serve(sys.argv[1], CachedHealth(ask, 0.05), lambda: print("ready", flush=True))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    (tmp_path / "failed.json").write_text("[]")
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """In a process of its own, as it would run; its path is folder/health.sock."""
    argv = [sys.executable, "-c", SERVER, str(folder / "health.sock"), str(folder / "failed.json")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def call(folder: Path, request: bytes = b"", timeout_s: float = 30.0) -> bytes:
    with grpc.insecure_channel(f"unix:{folder}/health.sock") as channel:
        answer: bytes = channel.unary_unary(METHOD)(request, timeout=timeout_s)
        return answer


def output_of(answer: bytes) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(answer[answer.index(b"{") :])
    return content


def test_healthy_node(folder: Path, server: subprocess.Popen[str]) -> None:
    answer = call(folder, b"\n\x08--prolog")
    assert answer.startswith(b"\x08\x01")
    assert output_of(answer)["fail_count"] == 0 and output_of(answer)["failed_checks"] == []


def test_node_with_a_fault_names_the_checks(folder: Path, server: subprocess.Popen[str]) -> None:
    (folder / "failed.json").write_text('[["arrays", "md0 lost a member"]]')
    while output_of(answer := call(folder))["fail_count"] == 0:
        pass
    assert not answer.startswith(b"\x08\x01") and answer.startswith(b"\x10\x01")
    assert output_of(answer)["failed_checks"] == ["arrays"]


def test_every_user_may_ask(folder: Path, server: subprocess.Popen[str]) -> None:
    assert stat.S_IMODE((folder / "health.sock").stat().st_mode) == 0o666


def test_huge_requests_are_refused_and_the_next_one_is_served(
    folder: Path, server: subprocess.Popen[str]
) -> None:
    for request in (b"\n" + b"x" * 100_000, b"\n\xff", os.urandom(3000)):
        with pytest.raises(grpc.RpcError):
            call(folder, request)
    assert output_of(call(folder))["fail_count"] == 0


def test_clients_that_say_nothing_or_nonsense_do_not_keep_others_out(
    folder: Path, server: subprocess.Popen[str]
) -> None:
    with contextlib.ExitStack() as stack:
        for number in range(100):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(str(folder / "health.sock"))
            with contextlib.suppress(OSError):
                client.sendall((b"", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 5000)[number % 3])
        assert output_of(call(folder))["fail_count"] == 0


def test_thousands_of_connections_end_at_the_limit_of_open_files(
    folder: Path, server: subprocess.Popen[str]
) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(800):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            with contextlib.suppress(OSError):
                client.connect(str(folder / "health.sock"))
        assert len(list(Path(f"/proc/{server.pid}/fd").iterdir())) <= MOST_FILES
    assert output_of(call(folder))["fail_count"] == 0  # and it serves again when they are gone


def test_socket_of_a_killed_server_is_replaced(folder: Path, server: subprocess.Popen[str]) -> None:
    server.send_signal(signal.SIGKILL)
    server.wait()
    assert (folder / "health.sock").is_socket()
    argv = [sys.executable, "-c", SERVER, str(folder / "health.sock"), str(folder / "failed.json")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as second:
        assert second.stdout is not None and second.stdout.readline() == "ready\n"
        assert output_of(call(folder))["fail_count"] == 0
        second.kill()


def test_what_is_no_socket_is_never_removed(folder: Path) -> None:
    (folder / "health.sock").write_text("precious")
    health = CachedHealth(lambda: NodeHealth(0.0), 60)
    with pytest.raises(HostError, match="something else"):
        serve(str(folder / "health.sock"), health)
    assert (folder / "health.sock").read_text() == "precious"


def test_folder_that_others_can_change_is_refused(folder: Path) -> None:
    folder.chmod(0o777)
    with pytest.raises(HostError, match="others"):
        serve(str(folder / "health.sock"), CachedHealth(lambda: NodeHealth(0.0), 60))


def test_answer_that_is_too_old_fails_nothing_and_says_so() -> None:
    old = CachedHealth(lambda: NodeHealth(1.0, (("arrays", "x"),)), 60).now()
    assert old.failed == () and old.problem is not None and "ago" in old.problem


def test_check_that_cannot_run_is_no_fault_of_the_node() -> None:
    found = check_node(60, None, ("--no-such-option",))
    assert found.failed == () and found.problem is not None


def test_checks_of_this_node_are_read() -> None:
    assert check_node(60, None).problem is None


def test_nonsense_fills_no_log_with_tracebacks(folder: Path) -> None:
    argv = [sys.executable, "-c", SERVER, str(folder / "health.sock"), str(folder / "failed.json")]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        codes = []
        for request in (b"\n\xff", b"\n\x09short", b"\xff" * 20):
            try:
                call(folder, request)
            except grpc.RpcError as error:
                codes.append(error.code())
        process.kill()
        said = process.communicate()[1]
    assert codes == [grpc.StatusCode.INVALID_ARGUMENT] * 3
    assert "Traceback" not in said

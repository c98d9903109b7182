"""Another user's process: no way back to root, no descriptors, a time limit."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from slurm_io.errors import StoreError
from slurm_io.store.run_as import MAX_ANSWER_BYTES, run_as

UID, GID, GROUP = 64123, 64124, 64125
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
ME = (os.geteuid(), os.getegid(), ())


@pytest.mark.root
@needs_root
def test_privileges_are_gone_for_good() -> None:
    def look() -> dict[str, Any]:
        refused = []
        for become in (os.setuid, os.seteuid, os.setgid, os.setegid):
            try:
                become(0)
            except PermissionError:
                refused.append(become.__name__)
        status = Path("/proc/self/status").read_text()
        caps = [line.split()[1] for line in status.splitlines() if line.startswith("Cap")]
        return {
            "uid": os.getresuid(), "gid": os.getresgid(), "groups": os.getgroups(),
            "umask": os.umask(0), "refused": refused, "caps": caps[1:3],
        }  # fmt: skip

    seen = run_as(UID, GID, [GROUP], look)
    assert seen["uid"] == [UID] * 3
    assert seen["gid"] == [GID] * 3
    assert seen["groups"] == [GROUP]
    assert seen["umask"] == 0o077
    assert seen["refused"] == ["setuid", "seteuid", "setgid", "setegid"]
    assert [int(cap, 16) for cap in seen["caps"]] == [0, 0]  # permitted, effective


@pytest.mark.root
@needs_root
def test_what_root_may_not_be_read_cannot(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    with pytest.raises(StoreError, match="PermissionError"):
        run_as(UID, GID, [], secret.read_text)


def test_only_the_named_descriptors_survive() -> None:
    kept, lost = os.pipe()
    os.set_inheritable(lost, True)

    def look() -> list[str]:
        os.fstat(kept)
        try:
            os.fstat(lost)
        except OSError:
            return [str(Path(f"/proc/self/fd/{fd}").readlink()) for fd in range(3)]
        return ["still there"]

    assert run_as(*ME, look, keep_fds=[kept]) == ["/dev/null"] * 3
    os.close(kept)
    os.close(lost)


def test_an_overrun_is_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"

    def hang() -> None:
        pid_file.write_text(str(os.getpid()))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)

    with pytest.raises(StoreError, match=r"within 0\.5 s"):
        run_as(*ME, hang, timeout_s=0.5)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def fail() -> None:
    raise StoreError("no space on /data")


def crash() -> None:
    raise RuntimeError("first\nsecond\x1b[31m")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leave() -> None:
    raise SystemExit(0)


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (fail, "no space on /data"),
        (crash, r"RuntimeError: first second \[31m"),
        (die, "died"),
        (leave, "SystemExit"),
        (lambda: object(), "died"),
        (lambda: "x" * MAX_ANSWER_BYTES, "died"),
    ],
)
def test_every_end_is_one_line(fn: Any, message: str) -> None:
    with pytest.raises(StoreError, match=message) as caught:
        run_as(*ME, fn)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "answer", [b"", b"null", b"[]", b"{}", b'{"ok"', b"[" * 100_000, b"\xff", b'{"error": []}']
)
def test_a_lying_child_is_no_crash(answer: bytes) -> None:
    """The child is the user's: it may write anything into the pipe."""

    def lie() -> None:
        for fd in range(3, 64):
            try:
                os.write(fd, answer)
            except OSError:
                continue
        os._exit(0)

    with pytest.raises(StoreError):
        run_as(*ME, lie)


def test_the_result_comes_back_and_the_child_is_reaped() -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text()
    assert run_as(*ME, lambda: {"files": 3}) == {"files": 3}
    assert children.read_text() == before

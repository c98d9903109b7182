"""The serving side under attack, with real rsync clients."""

import contextlib
import os
import socket
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_io.host.run import find_tool
from slurm_io.staging.stage import peer_files
from slurm_io.staging.stage.peer_daemon import NotReady, PeerDaemon
from slurm_io.staging.stage.peer_model import networks_of
from tests.staging.stage.peers import WAIT_S, fill, running, serving_of


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "private").write_text("outside")
    fill(tmp_path / "data", {b"a": b"inside", b"d/b": b"inside"})
    return tmp_path / "data"


def rsync(
    daemon: PeerDaemon, *words: str, secret: str, module: str = "data", given: bytes = b""
) -> "subprocess.CompletedProcess[bytes]":
    """Run rsync; ``{}`` in a word is the module's address."""
    address = f"rsync://stage@127.0.0.1:{daemon.port}/{module}"
    tool = find_tool("rsync")
    assert tool is not None
    return subprocess.run(
        [tool, "--contimeout=20", "--timeout=20", *(word.format(address) for word in words)],
        check=False,
        input=given,
        capture_output=True,
        env={"RSYNC_PASSWORD": secret, "LC_ALL": "C"},
        timeout=WAIT_S,
    )


def greeting(port: int) -> bytes:
    """What a bare connection is told: b"" when it is turned away."""
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as connection:
        try:
            return connection.recv(100)
        except ConnectionResetError:
            return b""


def test_who_knows_the_secret_may_read(data: Path, tmp_path: Path) -> None:
    serving = serving_of(data)
    with running(serving) as daemon:
        done = rsync(daemon, "-r", "{}/", f"{tmp_path}/got/", secret=serving.secret)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "got/d/b").read_text() == "inside"


@pytest.mark.parametrize("secret", ["", "wrong", "x" * 43])
def test_a_wrong_secret_gets_nothing(secret: str, data: Path, tmp_path: Path) -> None:
    with running(serving_of(data)) as daemon:
        done = rsync(daemon, "-r", "{}/", f"{tmp_path}/got/", secret=secret)
    assert done.returncode == 5
    assert not (tmp_path / "got/a").exists()


def test_nobody_can_write(data: Path, tmp_path: Path) -> None:
    serving = serving_of(data)
    with running(serving) as daemon:
        push = rsync(daemon, f"{tmp_path}/private", "{}/planted", secret=serving.secret)
        delete = rsync(
            daemon, "-r", "--delete", f"{tmp_path}/private", "{}/", secret=serving.secret
        )
        take = rsync(
            daemon, "--remove-source-files", "{}/a", f"{tmp_path}/got", secret=serving.secret
        )
    assert push.returncode and delete.returncode and take.returncode
    assert sorted(path.name for path in data.rglob("*")) == ["a", "b", "d"]


@pytest.mark.parametrize("option", ["-r", "-rl", "-rL", "-rk", "--copy-unsafe-links"])
def test_nobody_gets_out(option: str, data: Path, tmp_path: Path) -> None:
    (data / "link").symlink_to("../private")
    (data / "out").symlink_to("..")
    ways = (
        "../private",
        "d/../../private",
        "/../private",
        "link",
        "out/private",
        "out/./private",
        "a",
    )
    serving = serving_of(data)
    got = tmp_path / "got"
    got.mkdir()
    with running(serving) as daemon:
        rsync(daemon, option, *(f"{{}}/{way}" for way in ways), f"{got}/1/", secret=serving.secret)
        listed = (option, "--files-from=-", "--from0", "{}/", f"{got}/2/")
        names = "\0".join(ways).encode()
        rsync(daemon, *listed, secret=serving.secret, given=names)
    came = [(got / "1/a").is_file(), (got / "2/a").is_file()]
    refused = option in ("-rL", "-rk", "--copy-unsafe-links")
    assert came == ([False, False] if refused else [True, True])
    found = [path for path in got.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path for path in found if path.read_text() == "outside"] == []


@pytest.mark.parametrize("module", ["other", "..", "etc", "data/../.."])
def test_there_is_one_module_and_it_is_not_listed(module: str, data: Path, tmp_path: Path) -> None:
    serving = serving_of(data)
    with running(serving) as daemon:
        done = rsync(daemon, "-r", "{}/", f"{tmp_path}/got/", secret=serving.secret, module=module)
        listed = rsync(daemon, f"rsync://127.0.0.1:{daemon.port}/", secret=serving.secret)
    assert done.returncode != 0 or module == "data/../.."
    assert not list((tmp_path / "got").rglob("private"))
    assert listed.stdout == b""


def test_who_is_not_named_is_not_answered(data: Path) -> None:
    serving = serving_of(data, allow=networks_of(["192.0.2.1"]))
    with running(serving) as daemon:
        assert greeting(daemon.port) == b""


def test_a_flood_leaves_room_for_who_knows_the_secret(data: Path, tmp_path: Path) -> None:
    """Connections over the limit are closed; silent ones are shown the door."""
    serving = serving_of(data, connections_max=3, greet_s=1.0)
    with running(serving) as daemon, contextlib.ExitStack() as stack:
        address = ("127.0.0.1", daemon.port)
        silent = [stack.enter_context(socket.create_connection(address)) for _ in range(40)]
        turned_away = [connection for connection in silent if not _read(connection)]
        assert len(turned_away) >= 37
        assert all(_read(connection) == b"" for connection in silent), "silent ones must go"
        done = rsync(daemon, "-r", "{}/", f"{tmp_path}/got/", secret=serving.secret)
        assert done.returncode == 0, done.stderr


def _read(connection: socket.socket) -> bytes:
    connection.settimeout(WAIT_S)
    try:
        return connection.recv(4096)
    except ConnectionResetError:
        return b""


def test_no_process_shows_the_secret(data: Path, tmp_path: Path) -> None:
    serving = serving_of(data, bandwidth_bytes_s=16 * 1024)
    (data / "big").write_bytes(bytes(1 << 20))
    with running(serving) as daemon:
        stranger = socket.create_connection(("127.0.0.1", daemon.port))
        assert _read(stranger).startswith(b"@RSYNCD")
        lines = [path.read_bytes() for path in _command_lines()]
        stranger.close()
    assert any(b"--daemon" in line for line in lines), "the daemon must have been looked at"
    assert not any(serving.secret.encode() in line for line in lines)
    assert serving.secret not in repr(serving)


def _command_lines() -> Iterator[Path]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            path.read_bytes()
            yield path


def test_its_files_are_ours_alone_and_go(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = data.parent / "run"
    base.mkdir()
    monkeypatch.setattr(peer_files, "base_folder", lambda: str(base))
    with running(serving_of(data)):
        (folder,) = base.iterdir()
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert modes == {"lock": 0o600, "rsyncd.conf": 0o600, "secrets": 0o600}
    assert list(base.iterdir()) == []


def test_what_a_killed_server_left_is_swept(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = data.parent / "run"
    base.mkdir()
    monkeypatch.setattr(peer_files, "base_folder", lambda: str(base))
    left = base / ".slurm_io-serve-killed"
    left.mkdir()
    (left / "lock").touch()
    (left / "secrets").write_text("stage:old")
    (base / "somebody-else").mkdir()
    with running(serving_of(data)), running(serving_of(data)):
        assert len(list(base.iterdir())) == 3, "two that serve, and what is not ours"
        assert not left.exists()


def test_a_path_with_a_line_break_changes_no_setting(tmp_path: Path) -> None:
    data = tmp_path / "d\nread only = no\n[x]\npath = "
    fill(data, {b"a": b"inside"})
    serving = serving_of(data)
    with running(serving) as daemon:
        push = rsync(daemon, os.fspath(data / "a"), "{}/planted", secret=serving.secret)
        done = rsync(daemon, "{}/a", f"{tmp_path}/got", secret=serving.secret)
    assert push.returncode != 0 and not (data / "planted").exists()
    assert done.returncode == 0


def test_a_folder_swapped_meanwhile_is_not_served(data: Path, tmp_path: Path) -> None:
    serving = serving_of(data)
    with running(serving) as daemon:
        data.rename(tmp_path / "moved")
        data.symlink_to(tmp_path)
        done = rsync(daemon, "-r", "{}/", f"{tmp_path}/got/", secret=serving.secret)
    assert done.returncode == 0
    assert sorted(path.name for path in (tmp_path / "got").iterdir()) == ["a", "d"]


def test_a_copy_that_is_not_ready_is_not_served(data: Path) -> None:
    with (
        pytest.raises(NotReady, match="copying"),
        PeerDaemon(serving_of(data), lambda _: "copying"),
    ):
        pass


def test_it_ends_when_the_copy_is_no_longer_ready(data: Path) -> None:
    words = iter([None, None])
    with PeerDaemon(serving_of(data), lambda _: next(words, "being repaired")) as daemon:
        assert daemon.serve(threading.Event()) == "being repaired"


@pytest.mark.parametrize("limit", ["lifetime_s", "idle_s"])
def test_it_ends_by_itself(limit: str, data: Path) -> None:
    with PeerDaemon(serving_of(data, **{limit: 0.0}), lambda _: None) as daemon:
        assert daemon.serve(threading.Event()) is None
        port = daemon.port
    with pytest.raises(ConnectionRefusedError):
        greeting(port)

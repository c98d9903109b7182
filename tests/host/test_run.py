"""Commands: bounded in time and output, killed with their children, no shell, no inheritance."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from slurm_io.errors import HostError
from slurm_io.host.run import find_tool, run


def open_descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_output_code_and_input() -> None:
    done = run(["/bin/sh", "-c", "cat; echo err >&2; exit 3"], 10, stdin=b"hello")
    assert (done.return_code, done.stdout, done.stderr, done.cut) == (3, "hello", "err\n", False)


def test_no_shell_reads_the_arguments(tmp_path: Path) -> None:
    done = run(["/bin/echo", f"; touch {tmp_path}/x", "$(id)"], 10)
    assert done.stdout == f"; touch {tmp_path}/x $(id)\n"
    assert not (tmp_path / "x").exists()


def test_environment_is_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD_TEST", "evil")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    lines = run(["/usr/bin/env"], 10, extra_environment={"SLURM_CONF": "/c"}).stdout.split()
    names = {line.partition("=")[0] for line in lines}
    assert names == {"PATH", "LC_ALL", "SLURM_CONF"} and "LC_ALL=C" in lines


def test_the_deadline_kills_the_command_and_its_children(tmp_path: Path) -> None:
    began_s = time.monotonic()
    script = f"sleep 60 & echo $! > {tmp_path}/pid; wait"
    with pytest.raises(HostError, match=r"/bin/sh .*no answer within 0\.3 s"):
        run(["/bin/sh", "-c", script], 0.3)
    assert time.monotonic() - began_s < 5
    pid = int((tmp_path / "pid").read_text())
    end_s = time.monotonic() + 5
    while _alive(pid) and time.monotonic() < end_s:
        time.sleep(0.01)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_a_child_that_keeps_the_output_open_does_not_hold_us() -> None:
    began_s = time.monotonic()
    with pytest.raises(HostError, match="no answer"):
        run(["/bin/sh", "-c", "sleep 60 & exit 0"], 0.3)
    assert time.monotonic() - began_s < 5


def test_output_is_cut_at_the_limit_and_the_command_still_ends() -> None:
    done = run(["/usr/bin/head", "-c", "300000", "/dev/zero"], 10, limit_bytes=1000)
    assert (len(done.stdout), done.cut, done.return_code) == (1000, True, 0)


def test_large_input_to_a_command_that_does_not_read() -> None:
    assert run(["/bin/true"], 10, stdin=bytes(2**20)).return_code == 0


@pytest.mark.parametrize("argv", [[], ["true"], ["bin/true"]])
def test_only_absolute_paths(argv: list[str]) -> None:
    with pytest.raises(HostError, match="absolute"):
        run(argv, 1)


def test_a_missing_tool_is_named() -> None:
    with pytest.raises(HostError, match=r"cannot run /nonexistent/tool: No such file"):
        run(["/nonexistent/tool"], 1)


def test_check_turns_a_failure_into_an_error_with_its_last_words() -> None:
    with pytest.raises(HostError, match=r"exit code 7: second"):
        run(["/bin/sh", "-c", "echo first >&2; echo second >&2; exit 7"], 10, check=True)


def test_no_descriptor_is_left_or_inherited() -> None:
    before = open_descriptors()
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, True)
    shown = run(["/bin/ls", "/proc/self/fd"], 10).stdout.split()
    os.close(read_end)
    os.close(write_end)
    assert shown == ["0", "1", "2", "3"]
    assert open_descriptors() == before


def test_find_tool_looks_in_fixed_folders_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "scontrol-of-mine"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_tool(tool.name) is None
    assert find_tool(tool.name, [str(tmp_path)]) == str(tool)
    assert find_tool("sh") in ("/usr/bin/sh", "/bin/sh")

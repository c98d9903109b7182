"""``slurm-io run``: exit code, output, descriptors and signals pass through untouched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SLURM_IO = [sys.executable, "-m", "slurm_io"]


def run(tmp_path: Path, *argv: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    command = [*SLURM_IO, "run", "--no-report", "-o", str(tmp_path / "store"), "--", *argv]
    return subprocess.run(command, capture_output=True, check=False, timeout=60, **options)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("code", [0, 1, 2, 3, 77, 255])
def test_exit_code_is_the_commands_own(tmp_path: Path, code: int) -> None:
    assert run(tmp_path, "sh", "-c", f"exit {code}").returncode == code


def test_output_is_byte_for_byte_the_commands_own(tmp_path: Path) -> None:
    done = run(tmp_path, "sh", "-c", r"printf 'a\000\377b'; printf 'err\n' >&2")
    assert done.stdout == b"a\x00\xffb"
    assert done.stderr == b"err\n"


def test_standard_input_reaches_the_command(tmp_path: Path) -> None:
    assert run(tmp_path, "cat", input=b"hello").stdout == b"hello"


def test_options_of_the_command_are_not_ours(tmp_path: Path) -> None:
    assert run(tmp_path, "echo", "-o", "--debug", "--help").stdout == b"-o --debug --help\n"


def test_missing_command_ends_as_in_a_shell(tmp_path: Path) -> None:
    done = run(tmp_path, "no-such-command-anywhere")
    assert done.returncode == 127
    assert done.stderr == b"slurm-io: no-such-command-anywhere: No such file or directory\n"


def test_command_that_may_not_be_executed_ends_as_in_a_shell(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert run(tmp_path, str(script)).returncode == 126


def test_a_command_that_cannot_start_leaves_no_store(tmp_path: Path) -> None:
    run(tmp_path, "no-such-command-anywhere")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "mine").touch()
    run(tmp_path, "no-such-command-anywhere")
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["mine"]
    assert run(tmp_path, "true").returncode == 0


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGSEGV", "SIGUSR1"])
def test_death_by_signal_is_passed_on(tmp_path: Path, name: str) -> None:
    number = getattr(signal, name)
    assert run(tmp_path, "sh", "-c", f"kill -{int(number)} $$").returncode == -number


@pytest.mark.parametrize("name", ["TERM", "INT", "USR1", "HUP"])
def test_signal_to_the_wrapper_reaches_the_command(tmp_path: Path, name: str) -> None:
    # Under nohup HUP comes ignored, and a shell cannot trap what it inherited so.
    wrapper = ["env", f"--default-signal={name}", *SLURM_IO, "run", "--no-report"]
    script = f"trap 'echo got; exit 5' {name}; echo ready; while :; do sleep 0.05; done"
    with subprocess.Popen(
        [*wrapper, "-o", str(tmp_path / "store"), "--", "sh", "-c", script],
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(getattr(signal, f"SIG{name}"))
        assert process.stdout.readline() == b"got\n"
        assert process.wait(timeout=30) == 5


def test_ignored_signals_stay_ignored_and_defaults_stay_default(tmp_path: Path) -> None:
    plain = subprocess.run(
        ["sh", "-c", 'trap "" HUP; exec grep ^Sig /proc/self/status'],
        capture_output=True,
        check=True,
    )
    store, show = tmp_path / "store", "grep ^Sig /proc/self/status"
    ours = f"exec {sys.executable} -m slurm_io"
    wrapped = subprocess.run(
        ["sh", "-c", f'trap "" HUP; {ours} run --no-report -o {store} -- {show}'],
        capture_output=True,
        check=True,
    )
    relevant = (b"SigBlk", b"SigIgn")
    assert [line for line in wrapped.stdout.splitlines() if line[:6] in relevant] == [
        line for line in plain.stdout.splitlines() if line[:6] in relevant
    ]


def test_descriptors_of_the_caller_reach_the_command(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"through a descriptor")
    os.close(writer)
    done = run(tmp_path, "sh", "-c", f"cat /dev/fd/{reader}", pass_fds=(reader,))
    os.close(reader)
    assert done.stdout == b"through a descriptor"


def test_environment_differs_only_by_the_hook(tmp_path: Path) -> None:
    done = run(tmp_path, "env", "-0", env={**os.environ, "SOME": "thing"})
    seen = dict(item.split("=", 1) for item in done.stdout.decode().split("\0") if item)
    assert seen["SOME"] == "thing"
    changed = {name for name in seen if seen[name] != os.environ.get(name)} - {"SOME", "_"}
    assert changed == {"PYTHONPATH", "SLURM_IO_RING_DIR"}


def test_no_hook_leaves_the_environment_alone(tmp_path: Path) -> None:
    command = [
        *SLURM_IO,
        "run",
        "--no-hook",
        "--no-report",
        "-o",
        str(tmp_path / "s"),
        "--",
        "sh",
        "-c",
        "echo $SLURM_IO_RING_DIR",
    ]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"\n"


def test_store_knows_command_and_exit_code(tmp_path: Path) -> None:
    run(tmp_path, "sh", "-c", "exit 4")
    facts = json.loads((tmp_path / "store" / "job.json").read_text())
    assert facts["command"] == ["sh", "-c", "exit 4"]
    assert facts["exit_code"] == 4


def test_second_run_into_the_same_store_is_refused(tmp_path: Path) -> None:
    run(tmp_path, "true")
    done = run(tmp_path, "true")
    assert done.returncode == 2
    assert b"already holds a run: give another folder with -o" in done.stderr


def test_store_that_cannot_be_made_is_refused_before_the_command_runs(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file in the way")
    done = run(tmp_path, "touch", str(tmp_path / "ran"))
    assert done.returncode == 2
    assert not (tmp_path / "ran").exists()


def test_killed_sampler_costs_the_command_nothing(tmp_path: Path) -> None:
    script = "echo $PPID; read line; echo still here; exit 9"
    with subprocess.Popen(
        [*SLURM_IO, "run", "--no-report", "-o", str(tmp_path / "store"), "--", "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        sampler = int(process.stdout.readline())
        time.sleep(1.0)  # let it become the sampler
        os.kill(sampler, signal.SIGKILL)
        process.stdin.write(b"go\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"still here\n"
        assert process.wait(timeout=30) == 9


def test_reader_of_the_output_gets_its_end_with_the_command(tmp_path: Path) -> None:
    """A background child of the command that keeps stdout open is the command's own matter."""
    assert run(tmp_path, "sh", "-c", "echo done").stdout == b"done\n"


def test_no_rings_and_no_spool_left_behind(tmp_path: Path) -> None:
    before = set(Path("/dev/shm").glob(f"slurm-io-{os.getuid()}-*"))
    spool = tmp_path / "spool"
    spool.mkdir()
    command = [
        *SLURM_IO,
        "run",
        "--no-report",
        "--spool",
        str(spool),
        "-o",
        str(tmp_path / "store"),
        "--",
        "true",
    ]
    subprocess.run(command, check=True)
    assert set(Path("/dev/shm").glob(f"slurm-io-{os.getuid()}-*")) <= before
    assert list(spool.iterdir()) == []

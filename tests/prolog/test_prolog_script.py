"""prolog.sh and epilog.sh: whatever Python does, slurmd sees 0, soon, and nobody holds its pipe."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurm_io.prolog.entry_scripts import Filling, script_text
from slurm_io.slurm.hook_entry import DRAINED_EXIT_CODE
from tests.labs.slurmd_room import SlurmdRoom

SCRIPTS = ["prolog.sh", "epilog.sh"]
HANG = "#!/bin/sh\ntrap '' TERM\nsleep 60\n"


def script(folder: Path, name: str, python: str, limit_s: int = 1) -> Path:
    path = folder / name
    path.write_text(script_text(name, Filling(python, str(folder / "c.toml"), limit_s, "/run/x")))
    path.chmod(0o755)
    return path


def stand_in(folder: Path, text: str) -> str:
    """An executable in the interpreter's place; a folder name that needs quoting in the shell."""
    inner = folder / "it's here"
    inner.mkdir(exist_ok=True)
    path = inner / "python"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def as_slurmd_runs_it(path: Path, environment: dict[str, str] | None = None) -> tuple[int, bytes]:
    """Exit code and output, read to EOF as slurmd does, then its process group is killed."""
    process = subprocess.Popen(
        [path],
        env=environment or {},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    output, _ = process.communicate(timeout=20)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, output


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/sh\nexit 1\n",
        "#!/bin/sh\nkill -9 $$\n",
        "#!/bin/sh\necho noise; echo noise >&2\n",
        "#!/nonexistent/interpreter\n",
        "",
    ],
)
def test_a_broken_python_is_exit_0_and_silent(tmp_path: Path, name: str, text: str) -> None:
    assert as_slurmd_runs_it(script(tmp_path, name, stand_in(tmp_path, text))) == (0, b"")


@pytest.mark.parametrize("code", [*range(1, 6), 96, 98, 120, 126, 127, 137, 255])
def test_no_code_but_our_own_reaches_slurmd(tmp_path: Path, code: int) -> None:
    python = stand_in(tmp_path, f"#!/bin/sh\nexit {code}\n")
    assert as_slurmd_runs_it(script(tmp_path, "prolog.sh", python)) == (0, b"")


def test_a_drain_decided_inside_is_exit_1_in_the_prolog_only(tmp_path: Path) -> None:
    python = stand_in(tmp_path, f"#!/bin/sh\nexit {DRAINED_EXIT_CODE}\n")
    assert as_slurmd_runs_it(script(tmp_path, "prolog.sh", python)) == (1, b"")
    assert as_slurmd_runs_it(script(tmp_path, "epilog.sh", python)) == (0, b"")


@pytest.mark.parametrize("text", ["raise SystemExit(1)", "import os; os.abort()", "1 / 0", "["])
def test_a_package_that_breaks_is_exit_0(tmp_path: Path, text: str) -> None:
    package = tmp_path / "broken" / "slurm_io"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(text)
    filling = Filling(sys.executable, "/c", 20, "/run/x", packages=str(package.parent))
    path = tmp_path / "prolog.sh"
    path.write_text(script_text("prolog.sh", filling))
    path.chmod(0o755)
    assert as_slurmd_runs_it(path) == (0, b"")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_missing_python_is_exit_0(tmp_path: Path, name: str) -> None:
    assert as_slurmd_runs_it(script(tmp_path, name, "/nonexistent/python")) == (0, b"")


@pytest.mark.parametrize("shell", ["dash", "bash"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_shell_that_gives_up_is_exit_0(tmp_path: Path, name: str, shell: str) -> None:
    """As where nothing can be forked: a limit of processes reached, memory used up."""
    path = script(tmp_path, name, stand_in(tmp_path, "#!/bin/sh\nexit 0\n"))
    before, line, after = path.read_text().partition("hook=$!\n")
    path.write_text(f"{before}: ${{UNSET?cannot fork}}\n{line}{after}")
    done = subprocess.run([shell, path], env={}, capture_output=True, timeout=20, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("name", SCRIPTS)
def test_without_a_process_to_be_had_it_is_exit_0(tmp_path: Path, name: str) -> None:
    group = Path(f"/sys/fs/cgroup/pids/slurm_io_test_{os.getpid()}")
    if os.geteuid() != 0 or not (group.parent / "cgroup.procs").exists():
        pytest.skip("needs root and the cgroup v1 pids controller to refuse a fork")
    path = script(tmp_path, name, stand_in(tmp_path, "#!/bin/sh\nexit 0\n"))
    enter = 'echo $$ >"$1/cgroup.procs" && echo 1 >"$1/pids.max" && exec dash "$2"'
    group.mkdir()
    try:
        argv = ["/bin/sh", "-c", enter, "sh", str(group), str(path)]
        done = subprocess.run(argv, env={}, capture_output=True, timeout=20, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    finally:
        group.rmdir()


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_hanging_python_is_left_after_the_limit(tmp_path: Path, name: str) -> None:
    began = time.monotonic()
    assert as_slurmd_runs_it(script(tmp_path, name, stand_in(tmp_path, HANG))) == (0, b"")
    assert 0.9 < time.monotonic() - began < 10.0


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_term_from_slurmd_is_still_exit_0(tmp_path: Path, name: str) -> None:
    path = script(tmp_path, name, stand_in(tmp_path, HANG), limit_s=30)
    process = subprocess.Popen([path], env={}, stdout=subprocess.PIPE, start_new_session=True)
    time.sleep(0.3)
    process.terminate()
    assert process.wait(timeout=10) == 0
    os.killpg(process.pid, signal.SIGKILL)
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.root
def test_the_real_prolog_through_its_script(room: SlurmdRoom) -> None:
    filling = Filling(sys.executable, str(room.root / "config.toml"), 20, "/x")
    path = room.root / "prolog.sh"
    path.write_text(script_text("prolog.sh", filling))
    path.chmod(0o755)
    assert as_slurmd_runs_it(path, room.environment()) == (0, b"")
    assert (room.runtime() / "restart").exists()
    assert room.sampler_pid() > 0

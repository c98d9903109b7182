"""``slurm-io dataset serve`` as a job step runs it: a process of its own, real rsync clients."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurm_io.commands.dataset.serve import command
from slurm_io.errors import SlurmIoError, UsageError
from slurm_io.staging import record as records
from slurm_io.staging.stage.engines.rsync import Rsync
from slurm_io.staging.stage.model import SourceSpec
from slurm_io.staging.stage.peer_daemon import NotReady
from slurm_io.staging.stage.peer_model import checked_secret, networks_of
from slurm_io.staging.verify.by_hand import How, from_paths, verify_by_hand
from tests.labs.fault_kit import Bench

WAIT_S = 60
SECRET = "s" * 32
needs_machine_id = pytest.mark.skipif(
    not Path("/etc/machine-id").exists(), reason="needs /etc/machine-id: a record is bound to it"
)


class Served:
    """A verified copy in a site's registry. `words`: what to type."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.config = bench.root.parent / "config.toml"
        text = f'state_dir = "{bench.state_dir}"\n[dataset.demo]\nlocal = "{bench.root}"\n'
        self.config.write_text(text + f'manifest = "{bench.manifest_path}"\n')

    def words(self, *more: str) -> list[str]:
        return ["demo", "--allow", "127.0.0.1", "--bind", "127.0.0.1", "--host", "127.0.0.1",
                "--config", os.fspath(self.config), *more]  # fmt: skip

    def refused(self, *more: str) -> str:
        """Why it is not served."""
        result = CliRunner().invoke(command, self.words("--show-secret", *more))
        assert isinstance(result.exception, SlurmIoError), result.output
        assert result.exception.exit_code == 3
        return str(result.exception)

    @contextmanager
    def running(self, *more: str, given: str = "") -> Iterator["subprocess.Popen[str]"]:
        argv = [sys.executable, "-m", "slurm_io", "dataset", "serve", *self.words(*more)]
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdin is not None
        process.stdin.write(given)
        process.stdin.flush()
        try:
            yield process
        finally:
            process.kill()
            process.communicate(timeout=WAIT_S)


@pytest.fixture
def served(tmp_path: Path) -> Served:
    bench = Bench.made(tmp_path, record=False)
    what = from_paths(os.fspath(bench.root), os.fspath(bench.manifest_path), "local")
    from dataclasses import replace

    how = How(level=4, budget_s=None, keep_record=True, state_dir=os.fspath(bench.state_dir))
    verify_by_hand(replace(what, name="demo"), how)
    return Served(bench)


def told(process: "subprocess.Popen[str]") -> dict[str, object]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate(timeout=WAIT_S)
    answer = json.loads(line)
    assert isinstance(answer, dict)
    return answer


@needs_machine_id
def test_it_serves_until_told_to_end(served: Served) -> None:
    with served.running("--show-secret") as process:
        facts = told(process)
        assert facts["content_id"] == served.bench.manifest.header.content_id
        source = SourceSpec("peer", str(facts["where"]), "peer", str(facts["secret"]))
        assert Rsync(source).problem() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
        assert Rsync(source).problem() is not None


@needs_machine_id
def test_a_secret_that_was_given_is_not_repeated(served: Served) -> None:
    with served.running("--secret-stdin", given=f"{SECRET}\n") as process:
        facts = told(process)
        assert facts["secret"] is None
        source = SourceSpec("peer", str(facts["where"]), "peer", SECRET)
        assert Rsync(source).problem() is None
        line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert SECRET.encode() not in line


@needs_machine_id
def test_it_gives_way_to_whatever_runs_here(served: Served) -> None:
    import psutil

    with served.running("--show-secret") as process:
        told(process)
        seen = psutil.Process(process.pid)
        assert seen.nice() == 19
        assert seen.ionice().ioclass == psutil.IOPRIO_CLASS_IDLE


@needs_machine_id
def test_it_ends_when_the_record_says_otherwise(served: Served) -> None:
    from dataclasses import replace

    with served.running("--show-secret") as process:
        told(process)
        state_dir = os.fspath(served.bench.state_dir)
        with records.locked(state_dir, "demo", "local") as folder:
            record = records.load(state_dir, "demo", "local")
            assert record is not None
            records.save(folder, replace(record, state="copying"))
        assert process.wait(WAIT_S) == 3
        assert process.stderr is not None and "served no longer" in process.stderr.read()


@needs_machine_id
def test_who_starts_it_takes_it_along(served: Served) -> None:
    """The step's shell is killed; nobody is left to tell the server to end."""
    words = " ".join(served.words("--show-secret"))
    argv = ["sh", "-c", f"{sys.executable} -m slurm_io dataset serve {words}; :"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as shell:
        facts = told(shell)
        shell.kill()
        assert shell.stdout is not None
        assert shell.stdout.read() == "", "its end closes the pipe"
    source = SourceSpec("peer", str(facts["where"]), "peer", str(facts["secret"]))
    assert Rsync(source).problem() is not None


def test_another_version_is_not_served(served: Served) -> None:
    words = [f"demo@c1-{'0' * 32}", *served.words("--show-secret")[1:]]
    result = CliRunner().invoke(command, words)
    assert isinstance(result.exception, NotReady)
    assert "c1-000" in str(result.exception) or "proves nothing" in str(result.exception)


def test_a_copy_without_a_record_is_not_served(tmp_path: Path) -> None:
    assert "no record" in Served(Bench.made(tmp_path, record=False)).refused()


def test_a_record_of_another_machine_is_not_believed(tmp_path: Path) -> None:
    """Made on a machine with another id, then copied along."""
    assert "proves nothing" in Served(Bench.made(tmp_path)).refused()


def test_nobody_could_use_an_unknown_secret(served: Served) -> None:
    result = CliRunner().invoke(command, served.words())
    assert isinstance(result.exception, UsageError)


@pytest.mark.parametrize("secret", ["", "short", "x" * 30 + "\n[m]", "with blank" * 4, "ä" * 30])
def test_a_weak_or_odd_secret_is_refused(secret: str) -> None:
    with pytest.raises(UsageError) as caught:
        checked_secret(secret)
    assert not secret or secret not in str(caught.value)


def test_hosts_networks_and_nonsense() -> None:
    assert [str(each) for each in networks_of(["10.1.0.0/16", "::1"])] == ["10.1.0.0/16", "::1/128"]
    assert networks_of(["localhost"])
    with pytest.raises(UsageError):
        networks_of([])
    with pytest.raises(UsageError):
        networks_of(["no such host\n"])

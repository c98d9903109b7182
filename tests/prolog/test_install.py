"""`slurm-io install`: scripts with nothing left to look up, in a folder only root can change."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_io.commands.install import command
from slurm_io.errors import ConfigError, HostError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="install writes root's scripts")


def install(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def test_print_shows_the_lines_and_writes_nothing(tmp_path: Path) -> None:
    result = install("--print", "--dest", str(tmp_path / "hooks"))
    assert result.exit_code == 0
    lines = [line for line in result.output.splitlines() if not line.startswith("#")]
    assert lines == [
        f"Prolog={tmp_path}/hooks/prolog.sh",
        f"Epilog={tmp_path}/hooks/epilog.sh",
        f"TaskProlog={tmp_path}/hooks/task_prolog.sh",
        "PrologFlags=Alloc,DeferBatch",
    ]
    assert not list(tmp_path.iterdir())


def test_the_scripts_are_complete_executable_and_roots(tmp_path: Path) -> None:
    config = tmp_path / "my config.toml"
    config.write_text('runtime_dir = "/run/here"\n[prolog]\ndeadline_s = 1.5\n')
    folder = tmp_path / "hooks"
    assert install("--dest", str(folder), "--config", str(config)).exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "epilog.sh",
        "prolog.sh",
        "task_prolog.sh",
    ]
    for path in folder.iterdir():
        text = path.read_text()
        assert "@" not in text
        assert path.stat().st_mode & 0o7777 == 0o755
        assert path.stat().st_uid == 0
        subprocess.run(["/bin/sh", "-n", path], check=True)
    prolog = (folder / "prolog.sh").read_text()
    assert f"PYTHON={sys.executable}\n" in prolog
    assert f"CONFIG='{config}'\n" in prolog
    assert "LIMIT_S=3\n" in prolog
    assert "RUNTIME_DIR=/run/here\n" in (folder / "task_prolog.sh").read_text()


def test_installing_again_replaces_by_rename(tmp_path: Path) -> None:
    install("--dest", str(tmp_path / "hooks"))
    with (tmp_path / "hooks" / "prolog.sh").open() as running:
        install("--dest", str(tmp_path / "hooks"))
        assert running.read().startswith("#!/bin/sh"), "a running script keeps its old text"
        assert os.fstat(running.fileno()).st_nlink == 0


def test_a_destination_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "hooks"
    folder.mkdir()
    for mode in (0o777, 0o775, 0o1777):
        folder.chmod(mode)
        with pytest.raises(HostError, match="others"):
            install("--dest", str(folder))
    assert not list(folder.iterdir())


def test_a_destination_of_a_users_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 5, 60)
    with pytest.raises(HostError, match="belongs to uid 5"):
        install("--dest", str(tmp_path / "theirs" / "hooks"))


def test_a_bad_configuration_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("spool_dri = 3")
    with pytest.raises(ConfigError, match="spool_dir"):
        install("--dest", str(tmp_path / "hooks"), "--config", str(tmp_path / "c.toml"))
    assert not (tmp_path / "hooks").exists()


def test_one_of_the_two_must_be_said() -> None:
    assert install().exit_code == 2

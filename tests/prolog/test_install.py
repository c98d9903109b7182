"""`slurm-io install`: scripts with nothing left to look up, in a folder only root can change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_io import config as site
from slurm_io.commands.install import command
from slurm_io.errors import ConfigError, HostError
from slurm_io.prolog.entry_scripts import Filling, changeable_by_others, compile_modules

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="install writes root's scripts")


def install(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def test_print_shows_the_lines_and_writes_nothing(tmp_path: Path) -> None:
    result = install("--print", "--dest", str(tmp_path / "hooks"))
    assert result.exit_code == 0
    lines = [line for line in result.stdout.splitlines() if not line.startswith("#")]
    assert lines == [
        f"Prolog={tmp_path}/hooks/prolog.sh",
        f"Epilog={tmp_path}/hooks/epilog.sh",
        f"TaskProlog={tmp_path}/hooks/task_prolog.sh",
        "PrologFlags=Alloc,DeferBatch",
    ]
    assert not list(tmp_path.iterdir())


def test_lines_that_name_a_missing_script_come_with_a_warning(tmp_path: Path) -> None:
    """slurmd drains a node whose Prolog is named and not there."""
    hooks = str(tmp_path / "hooks")
    assert "prolog.sh is not there yet" in install("--print", "--dest", hooks).stderr
    install("--dest", hooks)
    assert "is not there yet" not in install("--print", "--dest", hooks).stderr


def test_json_says_what_was_written(tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    told = json.loads(install("--dest", str(hooks), "--json").stdout)
    assert sorted(told["written"]) == sorted(str(path) for path in hooks.iterdir())
    assert f"Prolog={hooks}/prolog.sh" in told["slurm_conf"]


def test_an_empty_destination_is_not_the_default_one() -> None:
    assert install("--dest", "").exit_code == 2


def test_the_default_configuration_may_be_absent_and_is_still_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "DEFAULT_PATH", str(tmp_path / "absent.toml"))
    done = install("--dest", str(tmp_path / "hooks"), "--config", site.DEFAULT_PATH)
    assert done.exit_code == 0
    assert f"CONFIG={site.DEFAULT_PATH}\n" in (tmp_path / "hooks" / "prolog.sh").read_text()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('[check.mount]\npolicy = "stop"\n', "mounts"),
        ("[check.space]\nkeep = 3\n", "keep_n"),
        ('[check.space]\nkeep_n = "many"\n', "whole number"),
        ('[check.layout]\npolicy = "drain"\n', "drains no node"),
    ],
)
def test_a_check_or_key_that_is_not_there_is_refused(tmp_path: Path, text: str, word: str) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(ConfigError, match=word):
        install("--dest", str(tmp_path / "hooks"), "--config", str(tmp_path / "c.toml"))
    assert not (tmp_path / "hooks").exists()


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


def test_what_root_runs_must_be_roots_own(tmp_path: Path) -> None:
    """Who can change the interpreter or a package is root at the next job."""
    tmp_path.chmod(0o755)
    for folder in ("roots", "theirs", "shared", "roots/bin"):
        (tmp_path / folder).mkdir()
    os.chown(tmp_path / "theirs", 5, 60)
    (tmp_path / "shared").chmod(0o775)
    (tmp_path / "theirs" / "python").touch()
    (tmp_path / "roots" / "bin" / "python").symlink_to(tmp_path / "theirs" / "python")

    def found(python: str, packages: str) -> str | None:
        return changeable_by_others(Filling(python, "c", 1, "r", packages))

    roots, theirs, shared = (str(tmp_path / name) for name in ("roots", "theirs", "shared"))
    assert found(roots, roots) is None
    assert found(f"{theirs}/python", roots) == theirs
    assert found(f"{roots}/bin/python", roots) == theirs
    assert found(roots, f"{roots}:{shared}") == shared


def test_modules_are_compiled_also_behind_links(tmp_path: Path) -> None:
    """A prolog of a read-only installation would compile them for every job."""
    package, room = tmp_path / "package", tmp_path / "room"
    for folder in (package / "sub", room):
        folder.mkdir(parents=True)
        (folder / "module.py").write_text("X = 1\n")
    (package / "linked").symlink_to(room)
    assert compile_modules(str(package))
    for folder in (package / "sub", room):
        assert [each.suffix for each in (folder / "__pycache__").iterdir()] == [".pyc"]
    (room / "broken.py").write_text("X =\n")
    assert not compile_modules(str(package))

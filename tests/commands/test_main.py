"""What holds for every command: exit codes, one line for an error, help that reads well."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from slurm_io import commands

SLURM_IO = (sys.executable, "-m", "slurm_io")
HASHED_FOR_A_WHILE = 20 << 30


def every_command(group: click.Group, name: str = "") -> Iterator[tuple[str, click.Command]]:
    for word in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), word)
        assert command is not None
        yield f"{name} {word}".strip(), command
        if isinstance(command, click.Group):
            yield from every_command(command, f"{name} {word}".strip())


ALL = dict(every_command(commands.cli))


@pytest.mark.parametrize("name", ALL)
def test_the_list_of_commands_cuts_no_sentence(name: str) -> None:
    short = ALL[name].get_short_help_str(limit=45)
    assert short.endswith((".", "?")) and not short.endswith("...")


@pytest.mark.parametrize("name", [name for name in ALL if not isinstance(ALL[name], click.Group)])
def test_every_command_explains_itself_and_takes_debug(name: str) -> None:
    command = ALL[name]
    assert command.help
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert "--debug" in [word for each in options for word in each.opts]
    assert [each.name for each in options if not each.help and each.name != "form"] == []
    assert not any("RANGE" in each.make_metavar(click.Context(command)) for each in options)


def test_a_reader_that_went_away_is_neither_fine_nor_found() -> None:
    """``slurm-io check | head -0`` must not read as "a check failed", nor as "all is well"."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*SLURM_IO, "rule", "show", "F01"], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_interrupt_is_no_answer(tmp_path: Path) -> None:
    """A verify that was interrupted must not end with the code for "a bad file"."""
    folder = tmp_path / "data"
    folder.mkdir()
    with (folder / "sparse").open("wb") as file:
        file.truncate(HASHED_FOR_A_WHILE)
    build = [*SLURM_IO, "dataset", "manifest", "build", folder, "-o", tmp_path / "m"]
    with subprocess.Popen(
        ["env", "--default-signal=INT", *build, "--algorithm", "sha512"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        while not (tmp_path / "m.journal").exists():
            assert child.poll() is None
            time.sleep(0.05)
        os.killpg(child.pid, signal.SIGINT)
        _, said = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "slurm-io: interrupted" in said.splitlines()
    assert "start it again" in said
    assert "Traceback" not in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_behind_the_output_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*SLURM_IO, "rule", "list"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 3
    assert done.stderr.startswith("slurm-io: No space left on device")
    assert done.stderr.count("\n") == 1


def test_a_name_the_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text('[dataset.c4]\nlocal = "/data/\u2603"\n', encoding="utf-8")
    done = subprocess.run(
        [*SLURM_IO, "dataset", "list", "--config", config],
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "/data/\\u2603" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        (["dataset", "verify", "nosuch"], "slurm-io: this site has no dataset 'nosuch'"),
        (["check", "--dataset", "a b"], "slurm-io: dataset must be NAME"),
    ],
)
def test_an_error_carries_our_name_once(
    arguments: list[str], start: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "c.toml").touch()
    config = ["--config", str(tmp_path / "c.toml")]
    monkeypatch.setattr(sys, "argv", ["slurm-io", *arguments, *config])
    with pytest.raises(SystemExit) as ended:
        commands.main()
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.startswith(start)
    assert said.count("slurm-io:") == 1


def test_what_the_system_refuses_is_no_fault_of_ours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(context: click.Context) -> None:
        raise PermissionError(13, "Permission denied", "/some/file")

    monkeypatch.setattr(commands.cli, "invoke", refused)
    monkeypatch.setattr(sys, "argv", ["slurm-io", "rule"])
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == 3
    assert capsys.readouterr().err == "slurm-io: '/some/file': Permission denied\n"


def test_a_deleted_current_folder_is_named(tmp_path: Path) -> None:
    script = f'mkdir gone; cd gone; rmdir ../gone; exec "{sys.executable}" -m slurm_io report 7'
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert done.stderr == "slurm-io: the current folder was deleted: go to another one\n"

"""``slurm-io dataset stage`` and ``clean``, as a person types them; stopped by SIGTERM."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_io.commands.dataset import clean as clean_module
from slurm_io.commands.dataset import stage as stage_module
from tests.staging.stage.kit import SIZES, Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site.made(tmp_path)
    lines = [
        f'state_dir = "{tmp_path}/state"',
        "[stage]",
        "free_share = 0.0",
        "debris_age_s = 0.0",
        "[dataset.demo]",
        f'local = "{made.target}"',
        f'shared = "{made.source}"',
        f'manifest = "{tmp_path}/demo.jsonl"',
    ]
    (tmp_path / "config.toml").write_text("\n".join(lines))
    return made


def run(site: Site, *arguments: str) -> Result:
    config = os.fspath(site.folder / "config.toml")
    return CliRunner().invoke(stage_module.command, [*arguments, "--config", config])


def test_plan_stage_plan(site: Site) -> None:
    before = run(site, "demo", "--dry-run")
    assert before.exit_code == 1
    assert f"copy      {len(SIZES)} files, 1.01 MB" in before.output
    assert not site.target.exists()
    done = run(site, "demo", "--from", "path")
    assert done.exit_code == 0
    assert done.output.startswith(f"ready     {len(SIZES)} files")
    after = run(site, "demo", "--dry-run", "--json")
    assert after.exit_code == 0
    assert json.loads(after.output)["kept_files"] == len(SIZES)


def test_json_is_the_last_line(site: Site) -> None:
    answer = json.loads(run(site, "demo", "--json").output.splitlines()[-1])
    assert (answer["state"], answer["copied_files"]) == ("ready", len(SIZES))


def test_a_folder_and_a_manifest_without_the_registry(site: Site, tmp_path: Path) -> None:
    place = ("--path", os.fspath(tmp_path / "x"), "--manifest", f"{tmp_path}/demo.jsonl")
    assert run(site, *place, "--from", os.fspath(site.source)).exit_code == 0
    assert (tmp_path / "x/index.json").exists()


def test_a_source_that_is_not_there_exits_3(site: Site) -> None:
    result = run(site, "demo", "--from", "/nowhere")
    assert result.exit_code == 3
    assert "'/nowhere' cannot be opened" in result.output
    assert run(site, "demo", "--from", "/nowhere", "--dry-run").exit_code == 3


def test_sources_and_repair_list_from_files(site: Site, tmp_path: Path) -> None:
    row = {"kind": "path", "where": os.fspath(site.source), "label": "n3"}
    (tmp_path / "sources.json").write_text(json.dumps([row]))
    given = ("--sources", f"{tmp_path}/sources.json", "--json")
    assert json.loads(run(site, "demo", *given).output)["by_source"] == {"n3": sum(SIZES.values())}
    (site.target / "a/000.tar").write_bytes(bytes(SIZES["a/000.tar"]))
    (tmp_path / "repair").write_text('{"path": "a/000.tar", "why": "content"}\n')
    answer = json.loads(run(site, "demo", *given, "--repair-list", f"{tmp_path}/repair").output)
    assert (answer["state"], answer["repaired_files"]) == ("ready", 1)


def test_clean(site: Site) -> None:
    run(site, "demo")
    debris = site.target / "a/.000.tar.aB3xZ9"
    debris.write_bytes(bytes(100))
    config = ("--config", os.fspath(site.folder / "config.toml"))
    listed = CliRunner().invoke(clean_module.command, ["demo", "--dry-run", *config])
    assert (listed.exit_code, debris.exists()) == (1, True)
    assert "'a/.000.tar.aB3xZ9'" in listed.output
    removed = CliRunner().invoke(clean_module.command, ["demo", "--json", *config])
    assert (removed.exit_code, debris.exists()) == (0, False)
    assert json.loads(removed.output)["paths"] == ["a/.000.tar.aB3xZ9"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_soon_and_the_same_command_goes_on(
    number: signal.Signals, site: Site, tmp_path: Path
) -> None:
    slow = [sys.executable, "-m", "slurm_io", "dataset", "stage", "demo", "--bandwidth", "20k"]
    command = [*slow, "--config", f"{tmp_path}/config.toml"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        while not (site.target / ".slurm_io_stage/0").exists():
            assert child.poll() is None
            time.sleep(0.01)
        child.send_signal(number)
        out, error = child.communicate(timeout=60)
    assert child.returncode == 3, error
    assert out.startswith(b"copying   stopped before its end: the same command goes on")
    assert not site.says_ready()
    assert run(site, "demo").exit_code == 0
    assert site.truth()

"""The script that is copied: what it reads, what it makes of the passes, what it refuses."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.analysis import reproduce
from slurm_io.analysis.reproduce import plain_passes
from slurm_io.analysis.reproduce.write import SCRIPTS

FOLDER = Path(reproduce.__path__[0])
RECIPE: dict[str, Any] = {
    "schema": 1, "steps": 12, "compute_s": 0.001, "dataset": "MISSING", "order": None,
    "bytes_per_item": "MISSING", "workers": 2, "prefetch": 2, "batch_size": 4,
    "dataset_class": None, "command": "MISSING", "work_dir": None, "world_size": None,
    "wait_share": 0.2,
}  # fmt: skip


def script(name: str) -> Any:
    """One of the scripts; it finds the other one under the name it is copied to."""
    place = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert place is not None
    assert place.loader is not None
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What becomes reproduce.py."""
    monkeypatch.setitem(sys.modules, "plain_passes", plain_passes)
    return script("passes")


@pytest.fixture
def loader_passes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Passes b and c."""
    monkeypatch.setitem(sys.modules, "plain_passes", plain_passes)
    return script("loader_passes")


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A folder as it is written; recipe.json is RECIPE."""
    for name, source in SCRIPTS.items():
        shutil.copy(FOLDER / source, tmp_path / name)
    (tmp_path / "recipe.json").write_text(json.dumps(RECIPE))
    data = tmp_path / "data"
    data.mkdir()
    for number in range(8):
        (data / f"item-{number}").write_bytes(bytes(1000))
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-E", "-s", folder / "reproduce.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", SCRIPTS.values())
def test_an_old_python_can_read_it_and_it_imports_nothing_of_ours(name: str) -> None:
    text = (FOLDER / name).read_text()
    tree = ast.parse(text, feature_version=(3, 8))
    imported = {
        alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {
        (node.module or "").partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    assert imported <= sys.stdlib_module_names | {"torch", "plain_passes"}


def test_plain_reads_run_alone_where_nothing_else_is_known(copied: Path) -> None:
    done = run(copied, "--data", str(copied / "data"), "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["passes"]["a"]["steps"] == 11
    assert "give it after --" in found["passes"]["b"]["reason"]
    assert found["verdict"] == "not told"
    assert found["cpu_short_share"] is None or 0 <= found["cpu_short_share"] <= 1


def test_a_node_that_lacks_cpus_is_named(passes: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for share in (None, 0.1):
        passes.show_cpus(share)
    assert capsys.readouterr().out == ""
    passes.show_cpus(0.63)
    assert "waited for a CPU in 63% of that time" in capsys.readouterr().out


def test_nothing_known_is_exit_code_2_with_each_reason(copied: Path) -> None:
    done = run(copied)
    assert done.returncode == 2
    assert "give --data DIR" in done.stdout
    assert "script first" in done.stdout
    (copied / "recipe.json").write_text(json.dumps({**RECIPE, "compute_s": "MISSING: no step"}))
    assert "compute_s is MISSING" in run(copied).stdout


def record(folder: Path, **facts: Any) -> Path:
    """A recipe whose program leaves a file; the file's path."""
    (folder / "evil.py").write_text(f"open({str(folder / 'ran')!r}, 'w')")
    recorded = {**RECIPE, "command": [sys.executable, str(folder / "evil.py")], **facts}
    (folder / "recipe.json").write_text(json.dumps(recorded))
    return folder / "ran"


def reason_of_b(done: subprocess.CompletedProcess[str]) -> str:
    return str(json.loads(done.stdout)["passes"]["b"]["reason"])


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_does_not_run_what_a_store_names(copied: Path) -> None:
    ran = record(copied)
    assert "not run as root" in reason_of_b(run(copied, "--passes", "b", "--json"))
    assert not ran.exists()


def test_what_another_users_store_names_is_run_when_it_is_trusted_only(
    copied: Path, passes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    ran = record(copied, store_owner=os.geteuid() + 1)
    recipe = json.loads((copied / "recipe.json").read_text())
    monkeypatch.setattr(passes.os, "geteuid", lambda: 4711)
    assert "another user's" in passes.why_refused(recipe, False)
    assert passes.why_refused({**recipe, "store_owner": 4711}, False) == ""
    monkeypatch.undo()
    assert "is not run" in reason_of_b(run(copied, "--passes", "b", "--json"))
    assert not ran.exists()
    run(copied, "--passes", "b", "--trust")
    assert ran.exists()


def test_a_program_whose_loader_nobody_described_is_not_run_to_its_end(copied: Path) -> None:
    ran = record(copied, workers=None)
    assert "no torch DataLoader" in reason_of_b(run(copied, "--trust", "--passes", "b", "--json"))
    assert not ran.exists()


def test_a_program_without_such_a_loader_ends_before_it_trains(copied: Path) -> None:
    torch = pytest.importorskip("torch")
    assert torch.__version__
    (copied / "train.py").write_text(
        "import torch\n"
        "weight = torch.nn.Parameter(torch.ones(1))\n"
        "optimizer = torch.optim.SGD([weight], 0.1)\n"
        "weight.sum().backward()\n"
        "optimizer.step()\n"
        f"open({str(copied / 'trained')!r}, 'w')\n"
    )
    done = run(copied, "--passes", "bc", "--json", "--", str(copied / "train.py"))
    assert "before a DataLoader like the recorded one" in reason_of_b(done)
    assert not (copied / "trained").exists()


def test_a_program_without_a_loader_is_told(copied: Path) -> None:
    pytest.importorskip("torch")
    (copied / "other.py").write_text("print('no loader here')")
    done = run(copied, "--passes", "b", "--json", "--", str(copied / "other.py"))
    reason = json.loads(done.stdout)["passes"]["b"]["reason"]
    assert "ended (exit code 0) before a DataLoader like the recorded one was started" in reason


def batches(files: list[tuple[str, int]], **facts: Any) -> list[list[tuple[str, int, int]]]:
    return plain_passes.plan_batches(list(files), {**RECIPE, **facts})


def test_items_as_large_as_files_are_files() -> None:
    files = [("a", 100), ("b", 100), ("c", 100)]
    planned = batches(files, bytes_per_item=90, steps=2, batch_size=2, order="listed")
    assert planned == [[("a", 0, 100), ("b", 0, 100)], [("c", 0, 100), ("a", 0, 100)]]


def test_small_items_of_large_files_are_pieces_in_listed_order() -> None:
    planned = batches([("a", 250), ("b", 100)], bytes_per_item=100, steps=5, batch_size=1)
    flat = [item for batch in planned for item in batch]
    assert flat == [("a", 0, 100), ("a", 100, 100), ("a", 200, 50), ("b", 0, 100), ("a", 0, 100)]


def test_large_files_are_not_read_whole_for_want_of_a_size() -> None:
    with pytest.raises(ValueError, match="fill in the recipe"):
        batches([("a", 10**9)], steps=1)


@given(
    files=st.lists(st.integers(1, 10**6), min_size=1, max_size=20),
    size=st.integers(0, 10**6),
    order=st.sampled_from(["listed", "shuffled", None]),
    steps=st.integers(1, 20),
    batch=st.sampled_from([None, 1, 3]),
)
def test_every_planned_read_lies_inside_its_file(
    files: list[int], size: int, order: str | None, steps: int, batch: int | None
) -> None:
    named = [(str(number), length) for number, length in enumerate(files)]
    planned = batches(named, bytes_per_item=size, order=order, steps=steps, batch_size=batch)
    assert len(planned) == steps
    lengths = dict(named)
    for path, offset, count in (item for one in planned for item in one):
        assert 0 <= offset < lengths[path]
        assert 0 < count <= lengths[path] - offset


@pytest.mark.parametrize(
    ("a", "b", "c", "word"),
    [
        (0.5, 0.6, 0.01, "storage"),
        (0.02, 0.6, 0.01, "loader"),
        (0.5, 0.6, 0.5, "loader"),
        (0.5, 0.02, 0.01, "not reproduced"),
        (None, 0.6, 0.01, "not told"),
        (0.5, None, None, "not told"),
        (None, 0.6, 0.5, "loader"),
        (0.5, 0.6, None, "storage"),
        (None, None, None, "not told"),
    ],
)
def test_what_the_passes_mean(
    passes: Any, a: float | None, b: float | None, c: float | None, word: str
) -> None:
    shares = {"a": a, "b": b, "c": c}
    results = {
        name: {"reason": "no"} if share is None else {"wait_share": share}
        for name, share in shares.items()
    }
    assert passes.judge(results)[0] == word


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["/env/bin/python3.11", "-u", "t.py", "--lr", "1"], (False, "t.py", ["--lr", "1"])),
        (["python", "-W", "ignore", "-m", "pkg.train", "x"], (True, "pkg.train", ["x"])),
        (["torchrun", "--nproc-per-node", "8", "--nnodes=2", "t.py", "a"], (False, "t.py", ["a"])),
        (["python", "-m", "torch.distributed.run", "--nnodes", "2", "t.py"], (False, "t.py", [])),
        (["torchrun", "--standalone", "-m", "pkg.train", "b"], (True, "pkg.train", ["b"])),
        (["t.py", "--x"], (False, "t.py", ["--x"])),
    ],
)
def test_the_program_in_a_command_line(
    loader_passes: Any, command: list[str], told: tuple[bool, str, list[str]]
) -> None:
    assert loader_passes.program(command) == told


@pytest.mark.parametrize("command", [["bash", "train.sh"], [], ["python"]])
def test_what_is_no_python_script_is_refused(loader_passes: Any, command: list[str]) -> None:
    with pytest.raises(SystemExit, match="no Python script"):
        loader_passes.program(command)


def test_an_item_is_had_from_a_dataset_that_gives_whole_batches_only(loader_passes: Any) -> None:
    class Batches:
        def __getitems__(self, indices: list[int]) -> list[str]:
            return [f"item {index}" for index in indices]

    assert loader_passes.one_item(Batches(), 3) == "item 3"
    assert loader_passes.one_item(["zero", "one"], 1) == "one"

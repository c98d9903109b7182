"""F11 and F12 read what the prolog's dataset check really says of a copy."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_io.config import DatasetConfig, parse
from slurm_io.prolog.checks.dataset import dataset
from slurm_io.spec import JobSpec
from tests.analysis.rules.stores import Row, answer, checked
from tests.labs.fault_kit import FAULTS, Bench
from tests.prolog.checks.job_context import context_for, proc_with_mounts

F11, F12 = "f11_dataset_not_there", "f12_stale_copy"
OTHER = "c1-" + "e" * 32
HOUR_NS = 3600 * 10**9


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A copy that was verified on this machine, and its record."""
    made = Bench.made(tmp_path, record=False)
    made.etc, made.name = Path("/etc"), "c4"
    if not Path("/etc/machine-id").exists():
        from slurm_io.staging.verify import driver
        from slurm_io.staging.verify.identity import Machine

        monkeypatch.setattr(driver, "this_machine", lambda roots: Machine("0" * 32, "n1"))
    made.keep_record()
    return made


def looked(bench: Bench, level: int = 1, wanted: str = "", required_mount: str = "") -> Row:
    """The check's answer as checks.json holds it; a `required_mount` is not mounted."""
    place = DatasetConfig(
        local=os.fspath(bench.root), manifest=os.fspath(bench.manifest_path), level=level
    )
    spec = JobSpec(dataset=f"c4@{wanted}" if wanted else "c4")
    tables: dict[str, Any] = {}
    proc: Path | str = "/proc"
    if required_mount:
        tables = {"check": {"mounts": {"required": [required_mount]}}}
        proc = proc_with_mounts(bench.state_dir.parent / "proc")
    context = context_for(place, spec=spec, proc_root=proc)
    config = replace(
        parse(tables), state_dir=os.fspath(bench.state_dir), datasets=context.config.datasets
    )
    [result] = dataset.run(replace(context, config=config))
    told: Row = json.loads(json.dumps(result.to_dict()))
    return told


def states(told: Row) -> tuple[str, str]:
    """What F11 and F12 say of a job whose only node said so."""
    store = checked({"n1": [told]})
    return answer(F11, store).state, answer(F12, store).state


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_proven_copy_is_quiet(level: int, bench: Bench) -> None:
    assert states(looked(bench, level)) == ("quiet", "quiet")


def test_a_missing_folder_and_a_truncated_file(bench: Bench) -> None:
    FAULTS["truncated"].apply(bench)
    assert states(looked(bench)) == ("fired", "quiet")
    FAULTS["nothing there"].apply(bench)
    told = looked(bench)
    [finding] = answer(F11, checked({"n1": [told]})).findings
    assert "no folder on 1" in finding.evidence[0].text
    assert finding.commands[-1] == told["commands"][0]


def test_an_absent_mount(bench: Bench) -> None:
    FAULTS["nothing there"].apply(bench)
    told = looked(bench, required_mount=os.fspath(bench.root.parent))
    [finding] = answer(F11, checked({"n1": [told]})).findings
    assert finding.title == "a mount of the dataset was absent on 1 node"
    assert os.fspath(bench.root.parent) in finding.evidence[0].text


def test_another_version(bench: Bench) -> None:
    assert states(looked(bench, wanted=OTHER)) == ("quiet", "fired")


@pytest.mark.parametrize(("level", "state"), [(0, "fired"), (1, "quiet")])
def test_an_old_record_counts_where_it_was_all_that_was_looked_at(
    level: int, state: str, bench: Bench
) -> None:
    bench.change_record(verified_ns=time.time_ns() - 25 * HOUR_NS)
    assert states(looked(bench, level)) == ("quiet", state)


def test_a_copy_without_a_record_proves_no_version(bench: Bench) -> None:
    (bench.state_dir / "datasets/c4@local/record.json").unlink()
    assert states(looked(bench)) == ("quiet", "not enough evidence")

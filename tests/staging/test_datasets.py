from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_io.config import parse
from slurm_io.errors import SpecError
from slurm_io.prolog.node_memory import NodeMemory, recall, remember
from slurm_io.staging.datasets import state_folder
from slurm_io.staging.verify.by_hand import from_registry


def test_nodes_that_share_a_folder_have_one_each_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    config = parse({"state_dir": "/lib/%N/%n"})
    monkeypatch.setenv("SLURMD_NODENAME", "t3")
    assert state_folder(config) == "/lib/t3/t3"
    assert state_folder(config, "t9.cluster") == "/lib/t9/t9.cluster"
    monkeypatch.delenv("SLURMD_NODENAME")
    short = os.uname().nodename.partition(".")[0]
    assert state_folder(config) == f"/lib/{short}/{short}"
    assert state_folder(parse({"state_dir": "/lib"}), "t3") == "/lib"


def test_a_name_that_leads_elsewhere_is_refused() -> None:
    with pytest.raises(SpecError, match="no path may hold"):
        state_folder(parse({"state_dir": "/lib/%N"}), "../../etc")


def test_a_dataset_by_hand_in_a_step_is_the_nodes_own(monkeypatch: pytest.MonkeyPatch) -> None:
    config = parse({"dataset": {"c4": {"local": "/data/%N/c4"}}})
    monkeypatch.setenv("SLURMD_NODENAME", "t3")
    assert from_registry(config, "c4", None).path == "/data/t3/c4"


@pytest.mark.root
def test_what_a_node_remembers_lies_in_its_own_folder(tmp_path: Path) -> None:
    config = parse({"state_dir": f"{tmp_path}/%N"})
    remember(config, "t3", NodeMemory(reason="slurm_io: x"))
    assert recall(config, "t3").reason == "slurm_io: x"
    assert recall(config, "t4").reason == ""
    assert (tmp_path / "t3" / "t3" / "checks.json").is_file()

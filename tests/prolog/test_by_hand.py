"""``slurm-io check`` every few minutes, as slurmd's HealthCheckProgram."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurm_io.host.probe import probe
from slurm_io.prolog import by_hand
from slurm_io.prolog.by_hand import Wanted, check_node
from slurm_io.prolog.checks.base import CheckContext
from slurm_io.prolog.node_memory import STUCK_PER_CHECK, recall
from tests.labs.freezer import freezer_group, sleep_in_state_d
from tests.prolog.stand_ins import make_check, make_config, result


@pytest.mark.root
def test_on_a_dead_mount_it_does_not_leave_one_more_process_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config(state_dir=str(tmp_path / "lib"))

    def ask_what_hangs(context: CheckContext) -> Any:
        return [result("UNKNOWN", text=probe(sleep_in_state_d, group, timeout_s=0.1).reason)]

    with freezer_group() as group:
        monkeypatch.setattr(
            by_hand, "_chosen", lambda wanted: {"mounts": make_check(ask_what_hangs)}
        )
        for _ in range(4 * STUCK_PER_CHECK):
            (judged,) = check_node(config, "t1", Wanted()).verdict.judged
        assert "children of earlier checks still hang" in judged.result.text
        assert len(recall(config, "t1").stuck["mounts"]) == STUCK_PER_CHECK
        assert len((group / "cgroup.procs").read_text().split()) == STUCK_PER_CHECK

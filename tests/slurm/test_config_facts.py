"""Configuration and partitions as scontrol prints them."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_io.errors import SlurmError
from slurm_io.slurm.config_facts import config_from_text
from slurm_io.slurm.partitions import partitions_from_text

FIXTURES = Path(__file__).parents[1] / "fixtures" / "slurm"


@pytest.mark.parametrize(
    ("release", "version"), [("24.11.5", (24, 11, 5)), ("26.05.5", (26, 5, 5))]
)
def test_recorded_configurations(release: str, version: tuple[int, int, int]) -> None:
    config = config_from_text((FIXTURES / f"config-{release}.txt").read_text())
    assert (config.cluster, config.version) == ("lab", version)
    assert (config.cred_expire_s, config.requeue_delay_s, config.start_delay_s) == (5, None, 5)
    assert (config.slurmd_timeout_s, config.kill_wait_s, config.job_requeue) == (9, 2, True)
    assert config.prolog_flags == ("Alloc", "DeferBatch") and not config.accounting
    (main,) = partitions_from_text((FIXTURES / f"partitions-{release}.txt").read_text())
    assert (main.name, main.is_default, main.max_time_s) == ("main", True, 3600)
    assert main.nodes == ("t1", "t2", "t3", "t4")


def text(**values: str) -> str:
    known = {"ClusterName": "c", "SLURM_VERSION": "25.11.2", **values}
    return "".join(f"{key:<24}= {value}\n" for key, value in known.items())


def test_the_delay_of_a_requeued_job() -> None:
    assert config_from_text(text()).start_delay_s == 120  # Slurm's own default
    assert config_from_text(text(AuthInfo="(null)")).start_delay_s == 120
    told = text(AuthInfo="socket=/x,cred_expire=30", SchedulerParameters="a,requeue_delay=0")
    assert config_from_text(told).start_delay_s == 0
    assert config_from_text(text(AuthInfo="cred_expire=x")).start_delay_s == 120


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("9 sec", 9), ("5 min", 300), ("300", 300), ("INFINITE", None), ("(null)", None), ("x", None)],
)
def test_times_with_their_units(value: str, seconds: int | None) -> None:
    assert config_from_text(text(SlurmdTimeout=value)).slurmd_timeout_s == seconds


@pytest.mark.parametrize("bad", ["", "x", "ClusterName = c\n", text(ClusterName="../x")])
def test_a_configuration_without_name_or_version_is_refused(bad: str) -> None:
    with pytest.raises(SlurmError):
        config_from_text(bad)


@pytest.mark.parametrize(
    "bad", ["x", "PartitionName= State=UP", "PartitionName=a", "PartitionName=a State=UP Nodes=n[1"]
)
def test_a_damaged_partition_is_refused(bad: str) -> None:
    with pytest.raises(SlurmError):
        partitions_from_text(bad)


def test_a_partition_without_nodes() -> None:
    (found,) = partitions_from_text("PartitionName=a State=DOWN Nodes=(null) MaxTime=UNLIMITED\n")
    assert (found.nodes, found.max_time_s, found.is_default) == ((), None, False)
    assert partitions_from_text("No partitions in the system\n") == ()

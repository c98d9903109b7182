"""Running Slurm's commands: in time, in a clean environment, and what their complaints become."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from slurm_io.errors import SlurmError, SlurmNotFound, SlurmRefused, SlurmUnreachable
from slurm_io.slurm import given
from slurm_io.slurm.cli import CliSlurm
from slurm_io.slurm.tools import Limits, ask, complaint_of, run_tool


def stand_in(folder: Path, name: str, script: str) -> Limits:
    """A command that prints what the test says (no Slurm: it is about how commands are run)."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return Limits(time_s=5.0, answer_bytes=1000, folders=(str(folder),))


def test_the_environment_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_TIME_FORMAT", "SQUEUE_FORMAT", "SLURM_CLUSTERS", "LD_PRELOAD_X", "TZ"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/other.conf")
    told = run_tool("scontrol", (), stand_in(tmp_path, "scontrol", "env")).stdout
    seen = dict(line.split("=", 1) for line in told.splitlines())
    assert seen["SLURM_TIME_FORMAT"] == "%s" and seen["LC_ALL"] == "C"
    assert seen["SLURM_CONF"] == "/etc/slurm/other.conf"
    assert not {"SQUEUE_FORMAT", "SLURM_CLUSTERS", "LD_PRELOAD_X", "TZ"} & set(seen)


def test_a_command_that_hangs_is_given_up(tmp_path: Path) -> None:
    limits = stand_in(tmp_path, "scontrol", "sleep 60")
    began_s = time.monotonic()
    with pytest.raises(SlurmUnreachable, match=r"scontrol show node: no answer within 0.3 s"):
        run_tool("scontrol", ("show", "node"), Limits(0.3, folders=limits.folders))
    assert time.monotonic() - began_s < 10


def test_an_answer_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SlurmError, match="too long"):
        run_tool("scontrol", (), stand_in(tmp_path, "scontrol", "head -c 100000 /dev/zero"))


def test_an_answer_that_ends_in_the_middle_is_refused(tmp_path: Path) -> None:
    script = (
        'case "$1" in --version) echo "slurm 22.05.8";; *) printf "NodeName=a State=IDLE";; esac'
    )
    with pytest.raises(SlurmError, match="ends in the middle"):
        CliSlurm(stand_in(tmp_path, "scontrol", script)).nodes()


def test_a_missing_command_is_said(tmp_path: Path) -> None:
    with pytest.raises(SlurmError, match="sfoo is not installed"):
        run_tool("sfoo", (), Limits(folders=(str(tmp_path),)))


# Printed by Slurm 22.05.8, 24.11.5 and 26.05.5.
@pytest.mark.parametrize(
    ("said", "kind", "told"),
    [
        ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
         SlurmUnreachable, "is slurmctld up"),
        ("Slurm controller (ctl) is in standby mode", SlurmUnreachable, "is slurmctld up"),
        ("Node t9 not found", SlurmNotFound, "Node t9 not found"),
        ("slurm_load_jobs error: Invalid job id specified", SlurmNotFound, "Invalid job id"),
        ("Error updating the reservation: Requested nodes are busy\nslurm_update error: x",
         SlurmRefused, "IGNORE_JOBS is never set"),
        ("slurm_update error: Invalid user id", SlurmRefused, "Administrator"),
        ("slurm_update error: Access/permission denied", SlurmRefused, "Administrator"),
        ("Error updating the reservation: The +=/-= notation is not supported when updating nodes",
         SlurmRefused, "full list"),
        ("delete_reservation: Requested reservation is in use", SlurmRefused, "its jobs run"),
        ("scontrol: error: a\x1b[31mb\nsomething new", SlurmError, "something new"),
        ("", SlurmError, "says nothing"),
    ],
)  # fmt: skip
def test_complaints(said: str, kind: type[SlurmError], told: str) -> None:
    error = complaint_of("scontrol", ("update", "x" * 500), said)
    assert type(error) is kind
    assert told in str(error) and "\n" not in str(error) and "\x1b" not in str(error)
    assert len(str(error)) < 500


def test_a_failure_says_what_was_asked(tmp_path: Path) -> None:
    limits = stand_in(tmp_path, "scontrol", "echo 'scontrol: error: broken' >&2; exit 1")
    with pytest.raises(SlurmError, match="scontrol show node: broken"):
        ask("scontrol", ("show", "node"), limits)


# -- 23.11 and later without the JSON plugins: nodes as text, jobs refused -----------------------

NO_JSON = """\
case "$*" in
--version) echo "slurm 24.11.5";;
*--json*) echo "scontrol: error: load_plugins: unable to find plugin: serializer/json" >&2;;
*"show node"*) echo "NodeName=a State=IDLE+DRAIN";;
*"show res"*) echo "No reservations in the system";;
esac
"""


def test_without_json_plugins_nodes_are_read_as_text(tmp_path: Path) -> None:
    limits = stand_in(tmp_path, "scontrol", NO_JSON)
    stand_in(tmp_path, "squeue", NO_JSON)
    slurm = CliSlurm(limits)
    (node,) = slurm.nodes()
    assert node.is_drained and slurm.node("a") == node
    with pytest.raises(SlurmError, match="serializer/json"):
        slurm.jobs()


# -- what callers give ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["ALL", "all", "All", "n[1-2]", "n1,n2", "", "n1 State=DOWN", "n\n"]
)
def test_one_node_is_one_node(name: str) -> None:
    with pytest.raises(SlurmRefused, match="not one node's name"):
        given.node_name(name)
    assert given.node_name("gpu-01.x_y") == "gpu-01.x_y"


@pytest.mark.parametrize("text", ["", "0", "x", "1;2", "1_", "-1", "1,2", "12345678901", "1 2"])
def test_a_job_is_one_job(text: str) -> None:
    with pytest.raises(SlurmRefused, match="no job id"):
        given.job_id(text)
    assert [given.job_id(each) for each in ("1", "1_2", "1+2")] == ["1", "1_2", "1+2"]


@pytest.mark.parametrize("text", ["a\nb", "a\0b", "a\x1b[31m", "x" * 2000, "a\u2028b"])
def test_a_text_is_one_printable_line(text: str) -> None:
    with pytest.raises(SlurmRefused):
        given.line(text, "reason")
    with pytest.raises(SlurmRefused, match="give one"):
        given.reason("  ")


def test_names_of_users_and_reservations() -> None:
    assert given.user_names(("a", "b.c@d"), "user") == "a,b.c@d"
    for bad in ("a,b", "-a", "", "a b", "a=b"):
        with pytest.raises(SlurmRefused):
            given.user_names((bad,), "user")
    for bad in ("a b", "a=b", "a,b", "", "x" * 300):
        with pytest.raises(SlurmRefused):
            given.reservation_name(bad)
    with pytest.raises(SlurmRefused, match="twice"):
        given.node_names(("n1", "n1"))

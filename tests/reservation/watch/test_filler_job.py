"""What is submitted as a filler job."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_io.config import ReservationConfig
from slurm_io.errors import ConfigError, SlurmRefused
from slurm_io.reservation.model import Pool
from slurm_io.reservation.watch.filler_job import filler_job
from slurm_io.slurm.infos import ReservationInfo
from slurm_io.slurm.submit import submit_words


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    script = tmp_path / "filler.sh"
    script.write_text("#!/bin/sh\n")
    settings = ReservationConfig(
        filler_script=str(script), filler_user="games", filler_partitions=("filler", "more")
    )
    return Pool("train", settings, ReservationInfo("train"), {}, (), (), (), ())


def test_job_is_pinned_marked_requeueable_and_never_roots(pool: Pool) -> None:
    words = submit_words(filler_job(pool, "t4"))
    assert {"--nodelist=t4", "--nodes=1", "--requeue", "--reservation=train"} <= set(words)
    assert "--partition=filler" in words and "--comment=slurm_io-filler train" in words
    assert "--uid=0" not in words


def test_mark_is_no_request_to_the_prolog(pool: Pool) -> None:
    assert "slurm-io:" not in str(filler_job(pool, "t4").comment)


@pytest.mark.parametrize("user", ["root", "no-such-account"])
def test_other_accounts_are_refused(pool: Pool, user: str) -> None:
    with pytest.raises(ConfigError, match="filler_user"):
        filler_job(replace(pool, settings=replace(pool.settings, filler_user=user)), "t4")


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"#" * 2_000_000])
def test_script_that_cannot_be_used_is_told(pool: Pool, content: bytes | None) -> None:
    script = Path(pool.settings.filler_script)
    script.unlink() if content is None else script.write_bytes(content)
    with pytest.raises(ConfigError, match="filler_script"):
        filler_job(pool, "t4")


@pytest.mark.parametrize("node", ["ALL", "t[1-4]", "t1,t2", ""])
def test_only_one_node_is_ever_named(pool: Pool, node: str) -> None:
    with pytest.raises(SlurmRefused):
        submit_words(filler_job(pool, node))


@pytest.mark.parametrize("kind", ["a file of root's", "a FIFO"])
def test_a_link_in_the_scripts_place_shows_the_account_nothing(
    pool: Pool, tmp_path: Path, kind: str
) -> None:
    """A job's owner can read its script: what root reads for him must be his to read."""
    secret = tmp_path / "secret"
    if kind == "a FIFO":
        os.mkfifo(secret, 0o666)
    else:
        secret.write_text("#!/bin/sh\nKEY=precious\n")
        secret.chmod(0o600)
    script = Path(pool.settings.filler_script)
    script.unlink()
    script.symlink_to(secret)
    with pytest.raises(ConfigError, match="games must be able to read it"):
        filler_job(pool, "t4")

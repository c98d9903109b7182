from __future__ import annotations

import os

from slurm_io.slurm.clean_environment import clean_environment


def test_words_of_another_job_do_not_reach_srun() -> None:
    env = clean_environment(
        {
            "PATH": "/bin",
            "SLURM_CONF": "/etc/slurm.conf",
            "SLURM_JOB_ID": "7",
            "SLURM_NTASKS": "64",
            "SLURM_IO_RING_DIR": "/r",
            "PYTHONPATH": "/mine",
        }
    )
    assert (env["PATH"], env["SLURM_CONF"], env["SLURM_IO_HOOK"]) == (
        "/bin",
        "/etc/slurm.conf",
        "0",
    )
    assert env["PYTHONPATH"].split(os.pathsep)[0] == "/mine"
    assert not {"SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_IO_RING_DIR"} & env.keys()

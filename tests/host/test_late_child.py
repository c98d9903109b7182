"""Whom a silent child left behind is found and killed, and nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil

from slurm_io.host.late_child import children_of, kill_children, sleeping_in, sleeps_in_kernel

PARENT = """
import subprocess, sys, time
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid, flush=True)
time.sleep(60)
"""


def test_children_are_killed_and_their_parent_is_not() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert children_of(parent.pid) == (child,)
        assert kill_children(parent.pid) == (child,)
        end_s = time.monotonic() + 10
        while psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < end_s
            time.sleep(0.005)
        assert parent.poll() is None
    finally:
        parent.kill()
        parent.communicate()


def test_a_process_without_children_or_that_is_gone_has_none() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert children_of(gone.pid) == ()
    assert kill_children(gone.pid) == ()
    assert sleeping_in(gone.pid) == ""
    assert not sleeps_in_kernel(gone.pid)
    assert not sleeps_in_kernel(os.getpid())

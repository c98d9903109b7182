"""Runs GPFS's monitoring commands; for a killable child, since they wait for mmfsd."""

from __future__ import annotations

from slurm_io.errors import HostError

TOOLS = "/usr/lpp/mmfs/bin"
_REQUEST = b"fs_io_s\n"
_LIMIT_BYTES = 1024 * 1024


def ask_mmpmon(path: str, timeout_s: float) -> str:
    """``fs_io_s`` of mmpmon, which only root may ask. Never ``reset``: others count with it too.

    Raises:
        HostError: it did not answer in time, or it failed.
    """
    return _said([path, "-p"], timeout_s, _REQUEST)


def ask_waiters(path: str, timeout_s: float) -> str:
    """``mmdiag --waiters -Y``; the text form where a version does not know ``-Y``. Each of the two
    gets half the time.

    Raises:
        HostError: it did not answer in time, or it failed.
    """
    try:
        return _said([path, "--waiters", "-Y"], timeout_s / 2)
    except HostError as error:
        if "no answer within" in str(error):
            raise
    return _said([path, "--waiters"], timeout_s / 2)


def _said(argv: list[str], timeout_s: float, stdin: bytes = b"") -> str:
    from slurm_io.host.run import run

    return run(argv, timeout_s, stdin=stdin, limit_bytes=_LIMIT_BYTES, check=True).stdout

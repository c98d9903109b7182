"""What srun starts on a node: ``python -m slurm_io.reservation.reach.node_part BOUNDS ARGUMENTS``.

BOUNDS is ``LIMIT_S,STDIN,STDOUT,STDERR`` (bytes). Runs ``python -m slurm_io ARGUMENTS`` with a time
limit of its own, so that nothing stays behind when nobody waits any more, and prints one answer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from slurm_io.errors import HostError
from slurm_io.host.run import run
from slurm_io.reservation.reach.frames import Said, lines_of
from slurm_io.slurm.node_name import node_name

_PASSED_ON = ("SLURMD_NODENAME", "SLURM_CONF", "PYTHONPATH", "HOME", "USER", "LANG")


def answer(
    node: str,
    arguments: list[str],
    limit_s: float,
    stdin: bytes,
    bytes_: tuple[int, int],
    environment: Mapping[str, str] = os.environ,
) -> Said:
    """Run the command. `bytes_`: most that its stdout and stderr may hold. Never raises HostError:
    what did not end in time, or said too much, has a problem."""
    passed = {name: environment[name] for name in _PASSED_ON if name in environment}
    try:
        done = run(
            [sys.executable, "-m", "slurm_io", *arguments],
            limit_s,
            stdin=stdin,
            extra_environment={**passed, "SLURMD_NODENAME": node, "SLURM_IO_HOOK": "0"},
            limit_bytes=max(bytes_),
        )
    except HostError as error:
        if "no answer within" in str(error):
            text = f"`slurm-io {' '.join(arguments[:3])}` did not end within {limit_s:g} s there"
            return Said(node, None, problem=text)
        return Said(node, None, problem=str(error))
    if done.cut or len(done.stdout) > bytes_[0]:
        return Said(node, None, problem=f"its answer is longer than {bytes_[0]} bytes")
    return Said(node, done.return_code, done.stdout, done.stderr[-bytes_[1] :])


def main(arguments: list[str]) -> int:
    """Answer on stdout; always 0, so that srun ends no other node's part."""
    limit_s, *most = arguments[0].split(",")
    stdin_bytes, stdout_bytes, stderr_bytes = map(int, most)
    stdin = sys.stdin.buffer.read(stdin_bytes)
    said = answer(
        node_name(os.environ), arguments[1:], float(limit_s), stdin, (stdout_bytes, stderr_bytes)
    )
    for line in lines_of(said):
        print(line)
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

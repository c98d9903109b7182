"""Which node of a job looks at shared data for all of them, without a server and without a lock.

Every node asking one metadata server for the same files is 48 x 2,400 opens per job start. One
node must do it, and a prolog has nobody to ask: no Slurm command, no shared folder that could not
be the very thing that hangs. But slurmd gives the same node list to every prolog of a job, so
"the first of the list" is known to all without a word. Slurm keeps the list in its own order and
starts the batch script on its first node: the leader's verdict meets the user where the output is.
A leader that is dead has no running job either, since the batch script starts there. A requeued
job elects anew, from its new list.
"""

from __future__ import annotations

from binascii import crc32


def leader_of(nodes: tuple[str, ...], node: str) -> str:
    """The node that looks at shared data; `node` itself where the job's nodes are not known."""
    return nodes[0] if nodes else node


def jitter_share(job: str | None, node: str) -> float:
    """0 to 1, the same for one job on one node: spreads what starts at the same moment."""
    return crc32(f"{job}/{node}".encode()) / 0xFFFFFFFF

"""How one node's answer travels through srun's output, beside those of others.

srun puts ``TASK: `` before every line (``--label``) and breaks lines of more than 1024 bytes, so
an answer is JSON in short pieces. Which node a task is, srun itself says (``--verbose``, on its
stderr): no node can answer for another. A node's bytes are counted before they are kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from slurm_io.records import dataclass
from slurm_io.reservation.model import Answer

MORE, LAST = "slurm_io+", "slurm_io."
PIECE_CHARS = 700
_LABELLED = re.compile(rb" *([0-9]{1,6}): (slurm_io[+.])([\x20-\x7e]*)\r?")
# From the line's beginning: what a task itself prints comes on the same stderr, behind its label.
_LAUNCHING = re.compile(
    r"srun: launching StepId=\S+ on host (\S+), \d+ tasks: (\d{1,6})$", re.ASCII
)
_FAILED = re.compile(
    r"srun: error: Task launch for StepId=\S+ failed on node ([^\s:]+): (.*)$", re.ASCII
)


@dataclass(frozen=True)
class Said:
    """What a node's part says. `rc` None: the command did not end, `problem` why."""

    node: str
    rc: int | None
    stdout: str = ""
    stderr: str = ""
    problem: str | None = None


def lines_of(said: Said) -> Iterator[str]:
    """The lines that the node's part prints."""
    words = [said.node, said.rc, said.stdout, said.stderr, said.problem]
    text = json.dumps(words)  # ASCII without a line break, whatever the texts hold
    pieces = [text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS)]
    for piece in pieces[:-1]:
        yield f"{MORE}{piece}"
    yield f"{LAST}{pieces[-1]}"


class Gathered:
    """The answers of one srun, taken from its output as it comes."""

    def __init__(self, nodes: tuple[str, ...], most_chars: int) -> None:
        self._nodes = frozenset(nodes)
        self._most_chars = most_chars
        self._begun: dict[int, bytearray] = {}
        self._ended: dict[int, Said | str] = {}
        self._task_node: dict[int, str] = {}
        self._failed: dict[str, str] = {}

    def take_stdout(self, line: bytes) -> None:
        """One line of srun's output; what is none of ours is left out."""
        found = _LABELLED.fullmatch(line)
        if found is None:
            return
        task, mark, piece = int(found[1]), found[2].decode(), found[3]
        if task in self._ended:
            self._ended[task] = "it answered twice"
            return
        if task >= len(self._nodes):
            return
        text = self._begun.setdefault(task, bytearray())
        text += piece
        if len(text) > self._most_chars:
            text.clear()
            self._ended[task] = "its answer is too long"
        elif mark == LAST:
            self._ended[task] = _parsed(bytes(self._begun.pop(task)))

    def take_stderr(self, line: str) -> None:
        """One line of srun's own words."""
        if found := _LAUNCHING.match(line):
            self._task_node[int(found[2])] = found[1]
        elif found := _FAILED.match(line):
            self._failed[found[1]] = found[2][:200]

    def answers(self) -> dict[str, Answer]:
        """What came, by node; nodes of which nothing came are left out."""
        answers: dict[str, Answer] = {}
        for node, why in self._failed.items():
            if node in self._nodes:
                answers[node] = Answer(node, None, problem=f"slurmd does not answer: {why}")
        for task, said in self._ended.items():
            node = self._node_of(task, said)
            if node in self._nodes:
                twice = node in answers and answers[node].rc is not None
                answers[node] = _answer(node, "two tasks answer for it" if twice else said)
        return answers

    @property
    def has_begun(self) -> bool:
        """Whether srun got so far as to start on nodes."""
        return bool(self._task_node or self._ended)

    def _node_of(self, task: int, said: Said | str) -> str:
        if task in self._task_node:
            return self._task_node[task]
        return said.node if isinstance(said, Said) else ""


def _parsed(text: bytes) -> Said | str:
    """Hostile input: a node may be broken, or somebody else's."""
    try:
        node, rc, stdout, stderr, problem = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return "its answer cannot be read"
    texts = all(isinstance(each, str) for each in (node, stdout, stderr))
    if not texts or not isinstance(problem, str | None) or not (rc is None or type(rc) is int):
        return "its answer cannot be read"
    return Said(node, rc, stdout, stderr, problem)


def _answer(node: str, said: Said | str) -> Answer:
    if isinstance(said, str):
        return Answer(node, None, problem=said)
    if said.node != node:
        return Answer(node, None, problem=f"it answers as {said.node[:60]!a}")
    problem = said.problem
    if problem is not None:
        problem = "".join(each if each.isprintable() else "?" for each in problem[:300])
    return Answer(node, said.rc, _bytes(said.stdout), _bytes(said.stderr), problem)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")

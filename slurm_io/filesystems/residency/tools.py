"""Asks a tool (lfs, weka, mmlsattr) about many files at once, in bounded command lines.

A path that the tool would print in a way that can be mistaken (line breaks, other control
characters, bytes that are no UTF-8) is not handed to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from slurm_io.filesystems.residency.base import Seen, Told, Verdict

_FILES_MAX = 256
_ARGUMENTS_MAX_BYTES = 64 * 1024
_LEAST_S = 0.02
_REASON_MAX_CHARS = 160

Parse = Callable[[str, Sequence[Seen]], Mapping[str, Verdict]]


def ask_tool(
    argv: Sequence[str],
    files: Sequence[Seen],
    until_s: float,
    parse: Parse,
    *,
    folders: Sequence[str] = (),
    extra_environment: Mapping[str, str] | None = None,
) -> Told:
    """Run ``argv FILE…`` for all files, batch after batch, until ``time.monotonic() == until_s``.

    `argv[0]` is the tool's bare name, looked for in `folders` and the usual places. The first
    batch that fails ends the asking: the next would fail as well.
    """
    from slurm_io.host.run import find_tool  # subprocess costs milliseconds: only where it is used

    path = find_tool(argv[0], folders)
    if path is None:
        return Told({}, f"{argv[0]} is not on this node")
    verdicts: dict[str, Verdict] = {}
    askable = [each for each in files if is_plain(each.full)]
    reason = "" if len(askable) == len(files) else f"file names that {argv[0]} cannot print safely"
    for batch in _batches(askable):
        left_s = until_s - time.monotonic()
        if left_s < _LEAST_S:
            return Told(verdicts, f"no time left to ask {argv[0]}")
        answers, failure = _ask([path, *argv[1:]], batch, left_s, parse, extra_environment)
        verdicts.update(answers)
        if failure:
            return Told(verdicts, f"{argv[0]}: {failure}")
    return Told(verdicts, reason)


def is_plain(path: str) -> bool:
    """Printable and encodable: what a tool prints for it is what was asked."""
    return path.isprintable()


def _ask(
    command: Sequence[str],
    batch: Sequence[Seen],
    timeout_s: float,
    parse: Parse,
    extra_environment: Mapping[str, str] | None,
) -> tuple[Mapping[str, Verdict], str]:
    """Answers, and why there are fewer than there should be ("" = all is well)."""
    from slurm_io.errors import HostError
    from slurm_io.host.run import run

    argv = [*command, *(each.full for each in batch)]
    try:
        done = run(argv, timeout_s, extra_environment=extra_environment)
    except HostError as error:
        return {}, _cut(str(error).rpartition(": ")[2])  # the front is the whole command line
    if done.return_code in (126, 127):
        return {}, _cut(f"cannot run here (exit {done.return_code}) {_last_line(done.stderr)}")
    answers = parse(done.stdout, batch)
    if done.return_code and len(answers) < len(batch):
        said = _last_line(done.stderr) or _last_line(done.stdout)
        return answers, _cut(f"exit {done.return_code} {said}")
    return answers, "" if len(answers) == len(batch) else "did not tell of all files"


def _batches(files: Sequence[Seen]) -> Iterator[Sequence[Seen]]:
    batch: list[Seen] = []
    size_bytes = 0
    for each in files:
        length_bytes = len(each.full.encode()) + 1
        if batch and (len(batch) == _FILES_MAX or size_bytes + length_bytes > _ARGUMENTS_MAX_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(each)
        size_bytes += length_bytes
    if batch:
        yield batch


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def _cut(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_REASON_MAX_CHARS])

"""Steps and throughput that the job prints itself.

Source
    The files that processes of the job have as standard output and standard error, found by
    /proc/PID/fd/1 and 2: of ranks, and of the batch shell, into whose file srun writes. Every 10 s
    a child reads on, at most 64 KiB for all files together, with the rights of the process whose
    output it is; a file on a mount that hangs costs only itself. Pipes, sockets and terminals are
    left alone: what is read there is lost to its reader. Lines known: Composer, DeepSpeed,
    Detectron2, fairseq, Hugging Face Trainer, Lightning, MaxText, Megatron-LM, MMEngine, nanoGPT,
    nanotron, NeMo, open_clip, PyTorch's ImageNet example, timm, torchtitan, and tqdm's bars.

Columns
    Table ``log``, one row a printed step, evaluation, save or summary, and one a look for each bar
    that moved. ``step_time_s`` is what the line says; for DeepSpeed and torchtitan, which say none,
    the difference of two time stamps. The clock is the line's own time stamp where that can be
    right (``clock``: stamp), else the moment of the look (``read``; block buffering delays lines).
    meta.json names the files, the bytes and lines that were not looked at, and why.

Needs
    Output that goes to a file: ``sbatch -o``, or ``> file`` (``srun`` hands the ranks a pipe, and
    writes into the batch job's file on the first node). Programs that print no such lines have no
    rows.

Cost
    A fork every 10 s and a glance at the descriptors every second, 0.6 ms of CPU a second together
    (bench/job_log_cost.py). Parsing adds 0.6 ms a second at most: a job that prints more than fits
    into that is read from the end, and the bytes left out are counted (10 of Megatron's lines a
    second fit, 4 kB; of 1 MB a second 0.6 % are read). The parsers are loaded with the first file:
    1 MiB.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from slurm_io.collectors.base import COLLECTORS, Availability, Context, Row, Tick
from slurm_io.collectors.log.outputs import Found, find_outputs, shown_path
from slurm_io.host.place_probes import PlaceProbes

if TYPE_CHECKING:
    from slurm_io.collectors.log.files import Files

_NS = 1_000_000_000
_TIMEOUT_S = 5.0
_LAST_LOOK_S = 0.3
_NEW_MEMBERS_NS = 2 * _NS
_MOST_BYTES = 64 * 1024
_FEWEST_BYTES_A_LOOK = 8 * 1024
_PARSE_NS = 6_000_000  # a look


@COLLECTORS.register("log")
class JobLog:
    """Rows of the log table. Called every second, it looks every `look_period_s`."""

    name = "log"
    table = "log"
    period_s = 1.0
    look_period_s = 10.0

    def __init__(self) -> None:
        self._context: Context | None = None
        self._probes = PlaceProbes(_TIMEOUT_S)
        self._found = Found((), {})
        self._left_alone: dict[str, int] = {}
        self._files: Files | None = None
        self._members: object = None
        self._scanned_ns: int | None = None
        self._looked: Tick | None = None
        self._first: Tick | None = None
        self._limit_bytes = _MOST_BYTES
        self._tried: set[str] = set()
        self._factor = 1
        self._glanced_ns: int | None = None

    def slow_down(self, factor: int) -> None:
        """A look costs a fork: look, and glance at descriptors, only every `factor` periods."""
        self._factor = factor

    def open(self, context: Context) -> Availability:
        """Nothing is read yet; the job may have no process."""
        self._context = context
        if not (context.proc_root / "self").exists():
            return Availability("off", f"no process table at {context.proc_root}")
        if not context.members():
            return Availability("partial", "no process of the job is known yet")
        return Availability("on")

    def collect(self, tick: Tick) -> list[Row]:
        """Rows of what was read since the last tick."""
        self._first = self._first or tick
        rows = self._take(tick)
        if not self._probes.is_asking:
            has_new = self._scan_if_due(tick)
            if self._read_ends(tick):
                rows += self._wait_for_ends(tick)
            elif has_new or self._is_due(tick):
                self._look(tick)
        return rows

    def facts(self) -> dict[str, object]:
        """Files and what was not read of them, with the state as it is known by now."""
        sources = self._files.rows_by_source() if self._files is not None else {}
        state, reason = self._state(bool(sources))
        return {
            "state": state,
            "reason": reason,
            "files": self._files.facts() if self._files is not None else [],
            "rows_by_source": sources,
            "left_alone": dict(self._left_alone),
            "failures": {shown_path(path): why for path, why in self._probes.failures.items()},
        }

    def close(self) -> None:
        """Kill the child, if one is reading."""
        self._probes.stop()

    def _scan_if_due(self, tick: Tick) -> bool:
        """Look at descriptors again; True when there is a file that was not tried yet."""
        if self._context is None:
            return False
        root, members = self._context.proc_root, self._context.members()
        passed_ns = None if self._scanned_ns is None else tick.mono_ns - self._scanned_ns
        is_news = members is not self._members and (passed_ns or 0) >= _NEW_MEMBERS_NS
        is_old = passed_ns is None or passed_ns >= self.look_period_s * self._factor * _NS
        if not (is_news or is_old or self._some_file_was_let_go(tick)):
            return False
        self._members, self._scanned_ns = members, tick.mono_ns
        self._found = find_outputs(root, members, self._context.uid)
        self._left_alone = self._found.left_alone or self._left_alone
        before, self._tried = self._tried, {output.path for output in self._found.outputs}
        return not self._tried <= before

    def _some_file_was_let_go(self, tick: Tick) -> bool:
        """Asked every second, or as often as the governor allows."""
        rest_ns = (self._factor - 1) * _NS
        is_early = self._glanced_ns is not None and tick.mono_ns - self._glanced_ns < rest_ns
        if self._context is None or is_early:
            return False
        self._glanced_ns = tick.mono_ns
        root = self._context.proc_root
        return any(not output.is_held(root) for output in self._found.outputs)

    def _is_due(self, tick: Tick) -> bool:
        looked, period_s = self._looked, self.look_period_s * self._factor
        return looked is None or tick.mono_ns - looked.mono_ns >= period_s * _NS

    def _look(self, tick: Tick) -> None:
        """Ask for the new bytes of every file."""
        self._looked = tick
        if not self._found.outputs or self._context is None:
            return
        if self._files is None:
            from slurm_io.collectors.log.files import Files

            self._files = Files()
        root = self._context.proc_root
        self._probes.ask(self._files.calls(self._found.outputs, root, self._limit_bytes))

    def _read_ends(self, tick: Tick) -> bool:
        """Ask for the ends of files that no process holds any more, if there are such."""
        if self._files is None:
            return False
        held = {output.path for output in self._found.outputs}
        calls = self._files.last_calls(held, self._limit_bytes)
        if calls:
            self._looked = tick
            self._probes.ask(calls)
        return bool(calls)

    def _wait_for_ends(self, tick: Tick) -> list[Row]:
        """With no file left the job is over, and there may be no later tick for the answer."""
        if self._found.outputs:
            return []
        rows: list[Row] = []
        end_s = time.monotonic() + _LAST_LOOK_S
        while self._probes.is_asking and time.monotonic() < end_s:
            time.sleep(0.002)
            rows += self._take(tick)
        return rows

    def _take(self, tick: Tick) -> list[Row]:
        """Rows of what children have brought since the last call."""
        files = self._files
        if files is None:
            return []
        first, looked = self._first or tick, self._looked or tick
        pieces = self._probes.take()
        began_ns, read_bytes = time.thread_time_ns(), files.bytes_read
        rows = files.ingest(pieces, looked, first)
        self._adapt(files.bytes_read - read_bytes, time.thread_time_ns() - began_ns)
        return rows if self._probes.is_asking else rows + files.settle(looked, first)

    def _adapt(self, read_bytes: int, cost_ns: int) -> None:
        """As many bytes the next time as can be parsed in the time there is."""
        if read_bytes >= _FEWEST_BYTES_A_LOOK:
            allowed = read_bytes * _PARSE_NS // max(1, cost_ns)
            self._limit_bytes = min(_MOST_BYTES, max(_FEWEST_BYTES_A_LOOK, allowed))

    def _state(self, has_rows: bool) -> tuple[str, str]:
        if has_rows:
            return "on", ""
        failures, left = self._probes.failures, self._left_alone
        if self._files is not None and self._files.all:
            return "absent", "the job's output holds no line of a known form"
        if failures:
            why = next(iter(failures.values()))["reason"]
            return "off", f"the job's output cannot be read: {why}"
        if left:
            kinds = ", ".join(sorted(left))
            return "off", f"the job's output goes to no file, and this is left alone: {kinds}"
        return "absent", "no output of the job was seen"

"""After the Epilog: wait for the sampler, seal, deliver, analyse, compact. Detached, nice 19.

``python -m slurm_io.epilog.finish CONFIG SPOOL RUNTIME RESTART``. What cannot be delivered stays
in the spool, named in the log, until `retention_s` has passed. Running it twice does no harm.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from slurm_io.config import Config, load
from slurm_io.epilog import analysis_ahead, stop_sampler
from slurm_io.epilog.account import Account, account_of
from slurm_io.epilog.case import Case, locked_job_folder, read_case
from slurm_io.epilog.clean_up import remove_set_aside, remove_spool, set_aside_runtime, sweep
from slurm_io.epilog.lead import Lead
from slurm_io.epilog.user_side import bring_home, publish, store_of
from slurm_io.errors import HostError, SlurmIoError
from slurm_io.host.bounded_log import BoundedLog
from slurm_io.host.root_folders import child_folder
from slurm_io.host.run import run
from slurm_io.sampler.ended import ended_by_itself
from slurm_io.store.deliver import open_source
from slurm_io.store.run_as import run_as

NICENESS = 19
STAGGER_FROM_NODES = 8
STAGGER_STEP_S = 0.02
STAGGER_MAX_S = 10.0
READING_RINGS_S = 90.0  # they are the user's files; it ends by itself before, if it can
TIDY_MARGIN_S = 5.0  # compaction ends by itself so long before the finisher is ended


def main(arguments: Sequence[str]) -> int:
    """Finish one job on one node; 0, or 3 when something has to wait in the spool."""
    config_path, spool, runtime, restart = arguments
    os.nice(NICENESS)
    _be_killed_before_jobs()
    os.umask(0o022)
    config = load(config_path)
    log = BoundedLog(config.log_file, config.log_max_bytes, f"finish {spool}")
    finisher = Finisher(config, Path(spool), log, time.monotonic() + config.epilog.time_limit_s)
    code = 0
    try:
        finisher.run(lambda: set_aside_runtime(runtime, int(restart), log.write))
    except (SlurmIoError, OSError) as error:
        log.write(f"unfinished: {error}")
        code = 3
    except Exception as error:  # noqa: BLE001 - nobody reads a detached process's traceback
        log.write(f"internal fault: {type(error).__name__}: {error}")
        code = 3
    remove_set_aside(runtime, log.write)
    sweep(Path(config.spool_dir), config.epilog.retention_s, time.time(), log.write)
    return code


def _be_killed_before_jobs() -> None:
    """When memory runs out: the analysis reads files that the job's user may have put there, and
    slurmd may have had the kernel spare all that it starts."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")


@dataclass(frozen=True)
class Finisher:
    """The steps in order. `deadline` is on the monotonic clock."""

    config: Config
    spool: Path
    log: BoundedLog
    deadline: float

    def run(self, when_sampler_ended: Callable[[], None]) -> None:
        """Everything, once; another finisher already at work is left to it."""
        if not self.spool.is_dir():  # not profiled: there is a runtime folder at most
            when_sampler_ended()
            return
        with locked_job_folder(self.spool) as job_folder:
            if job_folder is None:
                self.log.write("another finisher is at work")
                return
            node_folder = child_folder(job_folder, self.spool.name, str(self.spool.parent))
            try:
                how = stop_sampler.stop(node_folder, self.config.epilog.sampler_stop_s)
                unread = self._read_rings()
                when_sampler_ended()
                case = read_case(node_folder)
            finally:
                os.close(node_folder)
            missing = () if how == stop_sampler.ENDED else (how,)
            self._deliver(case, (*missing, *unread, *self._seal()))
            remove_spool(job_folder, self.spool)
        self._analyse(case)

    def _left_s(self) -> float:
        return max(1.0, self.deadline - time.monotonic())

    def _read_rings(self) -> tuple[str, ...]:
        """After a sampler that was killed, and before the rings go: what it had not read yet."""
        if ended_by_itself(self.spool):
            return ()
        argv = [sys.executable, "-I", "-m", "slurm_io.epilog.leftover", str(self.spool)]
        try:
            run(argv, min(self._left_s(), READING_RINGS_S), check=True)
        except HostError as error:
            self.log.write(f"the hook's rings were not read: {error}")
            return ("steps in the hook's rings could not be read",)
        return ()

    def _seal(self) -> tuple[str, ...]:
        """Turn streams into Parquet in a child; what could not be sealed is delivered as it is."""
        argv = [sys.executable, "-I", "-m", "slurm_io.store.seal", str(self.spool)]
        try:
            run(argv, self._left_s(), check=True)
        except HostError as error:
            self.log.write(f"not all was sealed: {error}")
            return ("some tables could not be sealed",)
        return ()

    def _deliver(self, case: Case, missing: tuple[str, ...]) -> None:
        """The user's copy, which must succeed, then the site's where there is one."""
        self._stagger(case)
        store = store_of(case)
        self._deliver_as(account_of(case.job.uid), case, store, missing)
        self.log.write(f"delivered to {store}")
        try:
            self._deliver_to_site(case, missing)
        except (SlurmIoError, OSError) as error:
            self.log.write(f"no copy for the site's store: {error}")

    def _deliver_to_site(self, case: Case, missing: tuple[str, ...]) -> None:
        store = self._site_store(case)
        if store is not None:
            account = account_of(self.config.store.service_user)
            self._deliver_as(account, case, store, missing, store.parent)

    def _deliver_as(
        self,
        account: Account,
        case: Case,
        store: Path,
        missing: tuple[str, ...],
        parent: Path | None = None,
    ) -> None:
        source = open_source(self.spool)

        def work() -> None:
            if parent is not None:
                parent.mkdir(mode=0o711, exist_ok=True)
            bring_home(case, source, store, missing)

        try:
            self._as(account, work, source.fds())
        finally:
            source.close()

    def _analyse(self, case: Case) -> None:
        # Only here: pyarrow takes 0.2 s, which the finisher of an unprofiled job should not pay.
        from slurm_io.epilog.tidy import Tidy
        from slurm_io.staging.checkpoints import look

        store = store_of(case)
        write_reports = analysis_ahead.load(self.config)
        look.get_ready()

        def analyse() -> None:
            with contextlib.suppress(SlurmIoError, OSError):  # then the report says nobody looked
                look.look_at_saves(store)
            write_reports(store)
            publish(store, store.with_name(f"{store.name}.txt"))

        tidy = Tidy(store, case.node, self.deadline - TIDY_MARGIN_S)
        expected = frozenset(case.nodes_expected())
        lead = Lead(store, case.node, expected, self.config.epilog.grace_s, analyse, tidy)
        answer = self._as(account_of(case.job.uid), lambda: [lead.run(), tidy.said])
        rounds, said = answer if isinstance(answer, list) and len(answer) == 2 else (None, None)
        self.log.write(f"analysed {rounds} times here: {store}")
        if said:
            self.log.write(f"not all was compacted: {said!r:.600}")
        self._compact_at_site(case, led=bool(rounds))

    def _compact_at_site(self, case: Case, *, led: bool) -> None:
        """The site's copy, by the leader of the analysis and by whoever completes the copy."""
        from slurm_io.epilog.tidy import Tidy, tidy_up

        store = self._site_store(case)
        if store is None:
            return
        tidy = Tidy(store, case.node, self.deadline - TIDY_MARGIN_S)
        expected = frozenset(case.nodes_expected())
        try:
            account = account_of(self.config.store.service_user)
            said = self._as(account, lambda: tidy_up(store, case.node, expected, tidy, led))
        except (SlurmIoError, OSError) as error:
            said = str(error)
        if said:
            self.log.write(f"not all of the site's copy was compacted: {said!r:.600}")

    def _site_store(self, case: Case) -> Path | None:
        """None where the site wants no copies."""
        site = self.config.store
        if not site.site_path:
            return None
        return Path(site.site_path) / f"cluster={case.job.cluster}" / f"job={case.job.key()}"

    def _as(
        self, account: Account, work: Callable[[], object], keep_fds: tuple[int, ...] = ()
    ) -> object:
        return run_as(
            account.uid, account.gid, account.groups, work, self._left_s(), keep_fds=keep_fds
        )

    def _stagger(self, case: Case) -> None:
        """Hundreds of nodes end together: spread their arrival at the file system."""
        nodes = case.nodes_expected()
        if case.node in nodes and len(nodes) > STAGGER_FROM_NODES:
            time.sleep(min(STAGGER_MAX_S, STAGGER_STEP_S * nodes.index(case.node)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

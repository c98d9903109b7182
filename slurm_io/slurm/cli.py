"""Changes by Slurm's own commands; reading is in :mod:`slurm_io.slurm.cli_read`.

Every change of a reservation is read back and compared: on 22.05 it is a read, a new list and a
write, so somebody else's change in between would be lost, and is told instead. Changes of one
reservation by this project must not run at the same time; the caller holds the lock.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from slurm_io.errors import SlurmError, SlurmNotFound, SlurmRefused
from slurm_io.slurm import given
from slurm_io.slurm.base import JobChange, NewJob, NewReservation, Requeued
from slurm_io.slurm.cli_read import CliReader
from slurm_io.slurm.hostlist import compress
from slurm_io.slurm.infos import JobInfo, ReservationInfo
from slurm_io.slurm.reservation_rules import (
    LONGEST_S,
    nodes_argument,
    refuse_bad_wish,
    refuse_changed,
    refuse_unfit,
    wanted_nodes,
)
from slurm_io.slurm.submit import job_id_in, submit_words
from slurm_io.slurm.tools import ask, complaint, run_tool

SOONEST_START_S = 5
_FINISHED = ("already finished", "already completing or completed")


class CliSlurm(CliReader):
    """:class:`slurm_io.slurm.base.Slurm` by scontrol, scancel and sacctmgr."""

    def drain(self, node: str, reason: str) -> None:
        """``State=DRAIN``."""
        self._update_node(node, "State=DRAIN", f"Reason={given.reason(reason)}")

    def resume(self, node: str) -> None:
        """``State=RESUME``."""
        self._update_node(node, "State=RESUME")

    def down(self, node: str, reason: str) -> None:
        """``State=DOWN``: Slurm does not wait for SlurmdTimeout then."""
        self._update_node(node, "State=DOWN", f"Reason={given.reason(reason)}")

    def set_node_texts(
        self, node: str, comment: str | None = None, extra: str | None = None
    ) -> None:
        """``Comment=`` and ``Extra=`` of a node."""
        texts = {"Comment": comment, "Extra": extra}
        words = [
            f"{key}={given.line(text, key)}" for key, text in texts.items() if text is not None
        ]
        if words:
            self._update_node(node, *words)

    def set_features(self, node: str, features: Sequence[str]) -> None:
        """``AvailableFeatures=`` and ``ActiveFeatures=``: a plugin may hold some back from use."""
        names = given.feature_names(features)
        found = self.node(node)
        held_back = set(found.features) - set(found.active_features)
        active = ",".join(each for each in features if each not in held_back)
        self._update_node(node, f"AvailableFeatures={names}", f"ActiveFeatures={active}")

    def submit(self, wanted: NewJob) -> str:
        """``sbatch``, the script on its stdin."""
        words = submit_words(wanted)
        return job_id_in(ask("sbatch", words, self._limits, wanted.script.encode()).stdout)

    def requeue(self, job_id: str, hold: bool = False) -> Requeued:
        """``scontrol requeue``; the answer says before when the job is not stuck."""
        job = self.job(job_id)
        _refuse_requeue(job)
        began_s = time.time()
        self._change("requeuehold" if hold else "requeue", job.job_id)
        if hold:
            return Requeued(job.job_id, None, "held: release it to let it start")
        return self._expected(self.job(job.job_id), began_s)

    def release(self, job_id: str) -> None:
        """``scontrol release``."""
        self._change("release", given.job_id(job_id))

    def cancel(self, job_id: str) -> None:
        """``scancel``."""
        ask("scancel", (given.job_id(job_id),), self._limits)

    def update_job(self, job_id: str, change: JobChange) -> None:
        """``scontrol update JobId=``; of a finished job only the admin comment can be set."""
        given.job_id(job_id)
        words = self._words_of(change)
        if not words:
            return
        try:
            self._change("update", f"JobId={job_id}", *words)
        except SlurmError as error:
            if change != JobChange(admin_comment=change.admin_comment):
                raise
            if not isinstance(error, SlurmNotFound) and not any(
                each in str(error) for each in _FINISHED
            ):
                raise
            self._comment_in_accounting(job_id, change.admin_comment or "")

    def notify(self, job_id: str, message: str) -> None:
        """``scontrol notify``."""
        given.line(message, "message")
        job = self.job(job_id)
        if job.state != "RUNNING":
            raise SlurmRefused(f"job {job_id} is {job.state}: only a running job has an output")
        self._change("notify", job.job_id, message)

    def create_reservation(self, wanted: NewReservation) -> ReservationInfo:
        """``scontrol create reservation`` with ``Nodes=``, so that Slurm keeps to them."""
        refuse_bad_wish(wanted)
        name, nodes = given.reservation_name(wanted.name), given.node_names(wanted.nodes)
        words = [
            f"ReservationName={name}",
            f"Nodes={compress(nodes)}",
            f"StartTime={'now' if wanted.start_s is None else f'uts{wanted.start_s}'}",
            f"Duration={(wanted.duration_s or LONGEST_S) // 60}",
        ]
        if wanted.users:
            words.append(f"Users={given.user_names(wanted.users, 'user')}")
        if wanted.accounts:
            words.append(f"Accounts={given.user_names(wanted.accounts, 'account')}")
        if wanted.ignore_running_jobs:
            words.append("Flags=IGNORE_JOBS")
        if any(each.name == name for each in self.reservations()):
            raise SlurmRefused(f"there is a reservation {name} already: choose another name")
        self._change("create", "reservation", *words)
        return self._read_back(name, nodes)

    def change_reservation(
        self,
        name: str,
        add: tuple[str, ...] = (),
        remove: tuple[str, ...] = (),
        expected: ReservationInfo | None = None,
    ) -> ReservationInfo:
        """``scontrol update ReservationName= Nodes=``, in the words of the controller's version."""
        given.node_names(add)
        given.node_names(remove)
        found = self.reservation(name)
        if expected is not None:
            refuse_changed(found, expected)
        nodes = self.nodes()
        refuse_unfit(found, nodes)
        wanted = wanted_nodes(found, add, remove)
        new = tuple(each for each in add if each not in found.nodes)
        unknown = [each for each in new if each not in {node.name for node in nodes}]
        if unknown:
            raise SlurmNotFound(f"Slurm knows no node {compress(unknown)}: nothing was changed")
        if set(wanted) == set(found.nodes):
            return found
        version = min(self.config().version, self.version())
        self._change(
            "update", f"ReservationName={name}", nodes_argument(version, wanted, new, remove)
        )
        return self._read_back(name, wanted)

    def extend_reservation(self, name: str, end_s: int) -> ReservationInfo:
        """``EndTime=``; an end that is nearer than the present one is refused."""
        found = self.reservation(name)
        if found.end_s is None or end_s < found.end_s:
            raise SlurmRefused(
                f"reservation {name} ends at {found.end_s} s: {end_s} s is not later, and would "
                "end its jobs early"
            )
        if end_s > found.end_s:
            self._change("update", f"ReservationName={name}", f"EndTime=uts{end_s}")
        again = self._read_back(name, found.nodes)
        # Slurm counts a duration in minutes.
        if again.end_s is None or abs(again.end_s - end_s) >= 60:
            raise SlurmError(f"reservation {name} ends at {again.end_s} s, not {end_s} s as set")
        return again

    def delete_reservation(self, name: str) -> None:
        """``scontrol delete``; Slurm refuses while its jobs run."""
        self.reservation(name)
        self._change("delete", f"ReservationName={name}")

    def _update_node(self, node: str, *words: str) -> None:
        self._change("update", f"NodeName={given.node_name(node)}", *words)

    def _change(self, *arguments: str) -> None:
        """A change; Slurm's older commands complain of some with exit code 0."""
        finished = run_tool("scontrol", arguments, self._limits)
        if finished.return_code != 0 or "error:" in finished.stderr:
            raise complaint("scontrol", arguments, finished)

    def _read_back(self, name: str, wanted: tuple[str, ...]) -> ReservationInfo:
        found = self.reservation(name)
        if set(found.nodes) != set(wanted):
            raise SlurmError(
                f"reservation {name} has {compress(found.nodes)} after the change, not "
                f"{compress(wanted)}: somebody changed it at the same time; read it again"
            )
        return found

    def _expected(self, job: JobInfo, began_s: float) -> Requeued:
        """Slurm's own eligible time where it is set already, else what the configuration says."""
        delay_s = self.config().start_delay_s
        expected_s = max(began_s + delay_s, float(job.eligible_s or 0))
        return Requeued(
            job.job_id,
            expected_s,
            f"Slurm lets a requeued job wait {delay_s} s (reason BeginTime): it is not stuck",
        )

    def _words_of(self, change: JobChange) -> list[str]:
        words = []
        if change.pinned_to is not None:
            words.append(f"ReqNodeList={compress(given.node_names(change.pinned_to))}")
        if change.excludes is not None:
            words.append(f"ExcNodeList={compress(given.node_names(change.excludes))}")
        if change.start_s is not None:
            # StartTime=now kills the job: a node that it ran on in this second by its own clock
            # refuses the new credential ("Job credential revoked", which Slurm takes as final).
            words.append(f"StartTime=uts{change.start_s or int(time.time()) + SOONEST_START_S}")
        if change.reservation is not None:
            name = change.reservation and given.reservation_name(change.reservation)
            words.append(f"ReservationName={name}")
        texts = {"Comment": change.comment, "AdminComment": change.admin_comment}
        words += [
            f"{key}={given.line(text, key)}" for key, text in texts.items() if text is not None
        ]
        if change.extra is not None:
            if self.config().version < (23, 2, 0):
                raise SlurmRefused("a job's Extra exists from Slurm 23.02 on: use its comment")
            words.append(f"Extra={given.line(change.extra, 'Extra')}")
        return words

    def _comment_in_accounting(self, job_id: str, text: str) -> None:
        """sacctmgr turns double quotes into backticks: such a text would be another one."""
        if '"' in text or "'" in text:
            raise SlurmRefused("a finished job's comment may hold no quotes: write key=value")
        if not self.config().accounting:
            raise SlurmRefused(
                f"job {job_id} has ended and this cluster has no slurmdbd: nothing keeps a comment"
            )
        ask(
            "sacctmgr",
            ("-i", "modify", "job", "where", f"jobid={job_id}", "set", f"AdminComment={text}"),
            self._limits,
        )


def _refuse_requeue(job: JobInfo) -> None:
    if job.batch is False:
        raise SlurmRefused(f"job {job.job_id} is no batch job: salloc and srun cannot be requeued")
    if job.may_requeue is False:
        raise SlurmRefused(
            f"job {job.job_id} was submitted with --no-requeue (or JobRequeue=0 holds): only its "
            "owner can submit it again"
        )
    if job.state == "PENDING":
        raise SlurmRefused(f"job {job.job_id} waits already: there is nothing to requeue")

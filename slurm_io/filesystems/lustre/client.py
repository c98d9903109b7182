"""The Lustre client of a node: its mounts, and which of the kernel's instances each of them is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slurm_io.filesystems.lustre.lnet import LnetStats, parse_lnet_stats
from slurm_io.filesystems.lustre.mount_view import MountView
from slurm_io.filesystems.lustre.names import Instance, Target, fsname_of, parse_lmv
from slurm_io.filesystems.lustre.places import Places, metadata_name_of
from slurm_io.filesystems.mounts import Mount
from slurm_io.host.probe import Probe

_ASK_TIMEOUT_S = 5.0
_MOST_OUTAGES = 512


class LustreClient:
    """All mounts of the client that this mount namespace shows."""

    def __init__(self, places: Places) -> None:
        self.views: list[MountView] = []
        self._places = places
        self._mounts: tuple[Mount, ...] = ()
        self._asked: list[str] = []
        self._probe: Probe | None = None
        self._stuck: Probe | None = None
        self._answers: dict[str, Instance] = {}
        self._ask_reason = ""
        self._lnet: list[LnetStats] = []

    def lay_out(self, mounts: tuple[Mount, ...]) -> list[MountView]:
        """Find the instances behind the mounts; the views that are gone, closed."""
        self._mounts = mounts
        names = {fsname_of(mount) for mount in mounts}
        targets = self._places.targets()
        known = {view.instance: view for view in self.views}
        found = [one for one in self._places.instances() if one.fsname in names]
        self.views = [
            known.pop(one) if one in known else self._new_view(one, targets) for one in found
        ]
        for view in known.values():
            view.close()
        points = {mount.mount_point for mount in mounts}
        self._answers = {point: one for point, one in self._answers.items() if point in points}
        if self._unanswered():
            self._ask()
        self._place()
        return list(known.values())

    def poll(self) -> None:
        """Take the answers to which instance a mount is, when they have come."""
        if self._probe is None:
            return
        self._probe.poll()
        if not self._probe.finished:
            return
        probe, self._probe = self._probe, None
        unasked = []
        for point, answer in zip(self._asked, probe.answers, strict=True):
            instance = parse_lmv(str(answer.value)) if answer and answer.state == "ok" else None
            if instance is not None:
                self._answers[point] = instance
            elif answer is None:
                unasked.append(point)
            else:
                self._ask_reason = f"{point} did not say which instance it is: {answer.reason}"
                self._stuck = probe if answer.abandoned_pid else self._stuck
        if unasked:  # a mount that hung ended the child; those behind it are asked by the next one
            self._start(unasked)
        self._place()

    def take_totals(self) -> None:
        """Read what changes slowly, for :meth:`facts`."""
        for view in self.views:
            view.take_totals()
        file = self._places.find_lnet()
        found = (
            None
            if file is None
            else parse_lnet_stats((file.read() or b"").decode("ascii", "replace"))
        )
        if file is not None:
            file.close()
        if found is not None:
            self._lnet = [*self._lnet[:1], found]

    @property
    def is_asking(self) -> bool:
        """True while it is being found out which of two mounts is which instance."""
        return self._probe is not None

    def facts(self) -> dict[str, Any]:
        """For meta.json: mounts, and the outages of their connections."""
        outages = [one for view in self.views for one in view.states.outages]
        outages = sorted(outages, key=lambda one: one.outage.from_s)[-_MOST_OUTAGES:]
        return {
            "mounts": [view.facts() for view in self.views],
            "mounts_not_told_apart": self._ask_reason or None,
            "lnet_since_start": self._lnet_since_start(),
            "outages": [
                {
                    "target": one.target,
                    "state": one.outage.state,
                    "from_ts_s": one.outage.from_s,
                    "until_ts_s": one.outage.until_s,
                }
                for one in outages
            ],
        }

    def close(self) -> None:
        """Give descriptors back, and kill the child if one is asking."""
        for view in self.views:
            view.close()
        if self._probe is not None:
            self._probe.stop()
            self._probe = None

    def _lnet_since_start(self) -> dict[str, int] | None:
        """Of the node, all mounts together; None when it was started anew or is not readable."""
        if not self._lnet:
            return None
        first, last = self._lnet[0], self._lnet[-1]
        names = ("errors", "send_count", "recv_count", "drop_count")
        grown = {name: getattr(last, name) - getattr(first, name) for name in names}
        return grown if min(grown.values()) >= 0 else None

    def _new_view(self, instance: Instance, targets: Iterable[Target]) -> MountView:
        own = [target for target in targets if target.instance == instance]
        return MountView(instance, own, self._places)

    def _unanswered(self) -> list[str]:
        """Mount points of file systems with several instances that were not asked yet."""
        instances = [view.instance.fsname for view in self.views]
        return [
            mount.mount_point
            for mount in self._mounts
            if instances.count(fsname_of(mount) or "") > 1
            and mount.mount_point not in self._answers
        ]

    def _ask(self) -> None:
        if self._probe is None and not (self._stuck and self._stuck.still_stuck()):
            self._start(self._unanswered())

    def _start(self, points: list[str]) -> None:
        self._asked = points
        self._probe = Probe([(metadata_name_of, (point,)) for point in points], _ASK_TIMEOUT_S)

    def _place(self) -> None:
        """Write the mount points to the views. Where a file system has one instance, all its
        mounts are of it; else each is asked. Of two that lie over one another at one point, only
        one is called by it."""
        instances = [view.instance.fsname for view in self.views]
        taken: set[str] = set()
        for view in self.views:
            is_only = instances.count(view.instance.fsname) == 1
            points = [
                mount.mount_point
                for mount in self._mounts
                if fsname_of(mount) == view.instance.fsname
                and (is_only or self._answers.get(mount.mount_point) == view.instance)
            ]
            free = [point for point in points if point not in taken]
            view.mount_point = free[0] if free else None
            view.also = [point for point in points if point != view.mount_point]
            taken.update(free[:1])

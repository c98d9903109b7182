"""One real cluster for all cluster tests, with our hooks installed as a site would install them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.labs.cluster import SlurmCluster
from tests.labs.cluster_parts import is_debian, missing_programs
from tests.labs.hooked_cluster import HookedCluster
from tests.labs.spare_cluster import EXTRA, SpareCluster


def require_cluster() -> None:
    """Fail where the cluster could be had (root on Debian), skip with the reason elsewhere."""
    missing = missing_programs()
    if os.geteuid() != 0:
        pytest.skip("a Slurm cluster needs root: slurmd starts jobs as their users")
    if missing and is_debian():
        pytest.fail(
            f"not installed: {', '.join(missing)}; `make setup` installs them "
            "(slurm-wlm slurmdbd munge mariadb-server)"
        )
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[HookedCluster]:
    """The session's cluster: 4 nodes, slurmdbd, our hooks."""
    require_cluster()
    with HookedCluster(nodes=4) as cluster:
        yield cluster


@pytest.fixture
def cluster(running_cluster: HookedCluster) -> HookedCluster:
    """The cluster with every node idle and the hooks as installed."""
    running_cluster.install_hooks()
    running_cluster.heal()
    return running_cluster


@pytest.fixture(scope="session")
def running_spares() -> Iterator[SpareCluster]:
    """The session's cluster for swaps: 8 nodes, a reservation with spares, no hooks."""
    require_cluster()
    with SlurmCluster(nodes=8, dbd=False, extra=EXTRA) as cluster:
        made = SpareCluster(cluster)
        made.make_reservation()
        yield made


@pytest.fixture
def spares(running_spares: SpareCluster, monkeypatch: pytest.MonkeyPatch) -> SpareCluster:
    """The cluster for swaps without jobs, every node well, the reservation as it was made."""
    monkeypatch.setenv("SLURM_CONF", str(running_spares.cluster.conf_path))
    running_spares.reset()
    running_spares.configure()
    return running_spares

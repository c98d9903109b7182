"""JuiceFS's .stats of both editions and the HTTP form, read to their last value.

The recorded texts are excerpts; what they leave out is made after the daemon's own printing.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.filesystems.client_counters import ClientCounters
from slurm_io.filesystems.juicefs.client import JuiceClient
from slurm_io.filesystems.juicefs.read import read_counters
from slurm_io.filesystems.juicefs.stats import (
    USED_NAMES,
    JuiceCounters,
    cache_of,
    counters_of,
    parse_stats,
)
from tests.filesystems.client_samples import sample

DURATIONS = "juicefs_object_request_durations_histogram_seconds"


def community(**changed: float) -> str:
    """A mount of a newer community edition."""
    values = {
        "juicefs_uptime": 4096.29,
        "juicefs_blockcache_hits": 9709,
        "juicefs_blockcache_miss": 10,
        "juicefs_blockcache_hit_bytes": 40717671794,
        "juicefs_blockcache_miss_bytes": 41943040,
        "juicefs_fuse_ops_durations_histogram_seconds_total": 1000,
        "juicefs_fuse_ops_durations_histogram_seconds_sum": 12.5,
        "juicefs_fuse_ops_durations_seconds_read": 8.0,
        "juicefs_fuse_ops_durations_seconds_write": 0.5,
        "juicefs_fuse_read_size_bytes_total": 600,
        "juicefs_fuse_read_size_bytes_sum": 78643200,
        "juicefs_fuse_written_size_bytes_total": 100,
        "juicefs_fuse_written_size_bytes_sum": 13107200,
        f"{DURATIONS}_GET_total": 20,
        f"{DURATIONS}_GET_sum": 3.0,
        f"{DURATIONS}_PUT_total": 4,
        f"{DURATIONS}_PUT_sum": 1.0,
        "juicefs_object_request_errors": 2,
        "juicefs_go_threads": 31,
    }
    return "".join(f"{name} {value}\n" for name, value in (values | changed).items())


ENTERPRISE = """blockcache.hitBytes: 8341055360094
blockcache.hits: 2590312
blockcache.miss: 1002930
blockcache.missBytes: 1935703021973
fuse_ops.lookup.cache: 0
fuse_ops.read: 29264056
fuse_ops.write: 50020133
fuse_ops: 126562751
meta.usec_ping: [407]
object.error: 73
object.get: 41
object.put: 1173014
objectDuration.get: 1107924
objectDuration.put: 117350542328
read_bytes: 3269189737736
uptime: 614133
write_bytes: 2410711988610
"""


def test_every_value_of_the_recorded_community_lines() -> None:
    stats = parse_stats(sample("fuse_s3/juicefs_stats_community.txt"))
    assert (stats.edition, stats.damaged) == ("community", 0)
    assert stats.values == {
        "juicefs_blockcache_blocks": 9708,
        "juicefs_blockcache_bytes": 40757435762,
        "juicefs_blockcache_drops": 0,
        "juicefs_blockcache_evicts": 0,
        "juicefs_blockcache_hit_bytes": 40717671794,
        "juicefs_blockcache_hits": 9709,
        "juicefs_blockcache_miss": 0,
        "juicefs_blockcache_miss_bytes": 0,
        "juicefs_blockcache_read_hist_seconds_total": 9709,
        "juicefs_blockcache_read_hist_seconds_sum": 973.9802880359989,
        "juicefs_blockcache_write_bytes": 0,
        "juicefs_blockcache_write_hist_seconds_total": 0,
        "juicefs_blockcache_write_hist_seconds_sum": 0,
    }
    assert cache_of(stats) == {
        "hits": 9709, "misses": 0, "hit_bytes": 40717671794, "miss_bytes": 0,
    }  # fmt: skip
    # Nothing is told of operations, so nothing is said of them.
    assert counters_of(stats) == {}


def test_every_value_of_the_recorded_enterprise_lines() -> None:
    stats = parse_stats(sample("fuse_s3/juicefs_stats_enterprise.txt"))
    assert (stats.edition, stats.damaged) == ("enterprise", 0)
    assert stats.values == {
        "symlink_cache.search_hits": 83251,
        "symlink_cache.search_misses": 416,
        "symlink_cache": 84083,
        "threads": 419,
        "totalBufferUsed": 1505634733,
        "uptime": 614133,
        "write_bytes": 2410711988610,
    }


def test_every_value_of_the_recorded_lines_with_labels() -> None:
    stats = parse_stats(sample("fuse_s3/juicefs_metrics_with_labels.txt"))
    assert (stats.edition, stats.damaged) == ("community", 0)
    assert stats.values == {
        "juicefs_blockcache_drops": 0,
        "juicefs_blockcache_evicts": 0,
        "juicefs_blockcache_hit_bytes": 3288597,
    }


def test_the_label_that_tells_requests_apart_becomes_part_of_the_name() -> None:
    line = 'juicefs_object_request_data_bytes{method="PUT",mp="/jfs/a",vol_name="v"} 3.454749e+06\n'
    assert parse_stats(line).values == {"juicefs_object_request_data_bytes_PUT": 3454749}


def test_classes_of_the_community_edition() -> None:
    assert counters_of(parse_stats(community())) == {
        "read": JuiceCounters(
            ClientCounters(ops=600, bytes=78643200, exe_ns=8_000_000_000), 20, 3_000_000_000
        ),
        "write": JuiceCounters(
            ClientCounters(ops=100, bytes=13107200, exe_ns=500_000_000), 4, 1_000_000_000
        ),
        "meta": JuiceCounters(ClientCounters(ops=300, exe_ns=4_000_000_000), None, None),
    }


def test_an_older_community_edition_tells_no_times_by_class() -> None:
    lines = [line for line in community().splitlines() if "durations_seconds" not in line]
    found = counters_of(parse_stats("\n".join(lines)))
    assert [found[name].operations.exe_ns for name in ("read", "write", "meta")] == [None] * 3
    assert found["meta"].operations.ops == 300


def test_classes_of_the_enterprise_edition() -> None:
    stats = parse_stats(ENTERPRISE)
    assert (stats.edition, stats.damaged) == ("enterprise", 1)  # the list of pings
    assert counters_of(stats) == {
        "read": JuiceCounters(ClientCounters(ops=29264056, bytes=3269189737736), 41, 1_107_924_000),
        "write": JuiceCounters(
            ClientCounters(ops=50020133, bytes=2410711988610), 1173014, 117_350_542_328_000
        ),
        "meta": JuiceCounters(ClientCounters(ops=126562751 - 29264056 - 50020133), None, None),
    }
    assert cache_of(stats)["misses"] == 1002930


class TestReadingsTogether:
    def test_latency_of_object_requests_is_that_of_the_interval(self) -> None:
        client = JuiceClient()
        client.take(parse_stats(community()))
        later = {f"{DURATIONS}_GET_total": 30, f"{DURATIONS}_GET_sum": 5.0, "juicefs_uptime": 4106}
        readings = client.take(parse_stats(community(**later)))
        assert readings["read"].store_ms == pytest.approx(200.0)
        assert (readings["write"].store_ms, readings["meta"].store_ms) == (None, None)

    def test_since_the_start(self) -> None:
        client = JuiceClient()
        client.take(parse_stats(community()))
        changed = {"juicefs_blockcache_miss": 25, f"{DURATIONS}_GET_total": 35}
        client.take(parse_stats(community(**changed)))
        facts = client.since_start()
        assert facts["cache"] == {"hits": 0, "misses": 15, "hit_bytes": 0, "miss_bytes": 0}
        assert facts["store_requests"] == {"GET": 15, "PUT": 0, "failed": 0}

    def test_other_operations_never_seem_to_step_back(self) -> None:
        client = JuiceClient()
        client.take(parse_stats(community()))
        # Two reads are counted already, but not yet among all operations.
        readings = client.take(parse_stats(community(juicefs_fuse_read_size_bytes_total=602)))
        assert readings["meta"].counters.ops == 300

    def test_a_daemon_started_anew_is_told_by_its_uptime(self) -> None:
        client = JuiceClient()
        client.take(parse_stats(community()))
        client.take(parse_stats(community(juicefs_uptime=3)))
        assert client.restarts == 1

    @given(
        st.lists(
            st.dictionaries(st.sampled_from(sorted(USED_NAMES)), st.floats(0, 2.0**64), max_size=8),
            max_size=6,
        )
    )
    def test_no_number_is_ever_negative(self, series: list[dict[str, float]]) -> None:
        client = JuiceClient()
        for changed in series:
            for reading in client.take(parse_stats(community(**changed))).values():
                numbers = [*reading.counters, reading.store_ms]
                assert all(value is None or 0 <= value < 2**63 for value in numbers)


class TestReadingTheFile:
    def test_only_what_means_something_is_handed_on(self, tmp_path: Path) -> None:
        (tmp_path / ".stats").write_text(community())
        edition, values, damaged = read_counters(str(tmp_path))
        assert (edition, damaged) == ("community", 0)
        assert values.keys() <= USED_NAMES and "juicefs_go_threads" not in values

    def test_a_file_without_counters_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / ".stats").write_text("hello\n")
        with pytest.raises(OSError, match="no counter of JuiceFS"):
            read_counters(str(tmp_path))

    def test_links_pipes_sockets_and_endless_files_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "real").write_text(community())
        stats = tmp_path / ".stats"
        stats.symlink_to("real")
        with pytest.raises(OSError, match=r"symbolic link|Too many levels"):
            read_counters(str(tmp_path))
        stats.unlink()
        os.mkfifo(stats)
        with pytest.raises(OSError, match="no regular file"):
            read_counters(str(tmp_path))
        stats.unlink()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(stats))
            with pytest.raises(OSError, match=r"No such device|regular file"):
                read_counters(str(tmp_path))
        stats.unlink()
        with open(stats, "wb") as file:
            file.truncate(1 << 40)
        with pytest.raises(OSError, match="more than"):
            read_counters(str(tmp_path))

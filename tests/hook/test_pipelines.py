"""Loaders that are no torch DataLoader, by stand-ins with the seams of Grain and WebDataset.

The libraries themselves run in tests/frameworks.
"""

from __future__ import annotations

import textwrap

import pytest

from tests.hook.scripts import Job

GRAIN = {
    "grain/_src/python/dataset/dataset.py": """
        class IterDataset:
            _datasets = None
            def __init__(self, *parents): self._parents = parents
            def __iter__(self): return _OutputIterDataset(self).__iter__()
        class _OutputIterDataset(IterDataset):
            def __init__(self, parent): self._parent = parent
            def __iter__(self): return self._parent.begin()
        class Rows(IterDataset):
            _batch_size = 4
            def __init__(self, source): super().__init__(); self._source = source
            def begin(self): return RowsIterator(self._source)
        class RowsIterator:
            def __init__(self, source): self.rest = list(source)
            def __iter__(self): return self
            def __next__(self):
                if not self.rest: raise StopIteration
                return self.rest.pop(0)
        class Twice(IterDataset):
            def begin(self): return TwiceIterator(iter(self._parents[0]))
        class TwiceIterator:
            def __init__(self, parent): self.parent = parent
            def __iter__(self): return self
            def __next__(self): return 2 * next(self.parent)
        class ProcessPrefetchIterDataset(Twice): pass
        class Interleave(IterDataset):
            def __init__(self, *shards): super().__init__(); self._datasets = list(shards)
            def begin(self): return iter(self._datasets[0])
    """,
    "grain/_src/python/dataset/transformations/process_prefetch.py": """
        _is_in_worker_process = False
    """,
}
WEBDATASET = {
    "webdataset/pipeline.py": """
        class DataPipeline:
            def __init__(self, *steps): self.pipeline = list(steps)
            def __iter__(self): return self.iterator()
            def iterator(self):
                source = iter(self.pipeline[0])
                for step in self.pipeline[1:]: source = step(source)
                yield from source
    """,
}


def install(job: Job, modules: dict[str, str]) -> None:
    for name, body in modules.items():
        file = job.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(body))


@pytest.fixture
def grain(job: Job) -> Job:
    install(job, GRAIN)
    return job


@pytest.fixture
def webdataset(job: Job) -> Job:
    install(job, WEBDATASET)
    return job


def test_what_a_grain_pipeline_hands_out_is_a_batch_and_what_it_holds_is_none(grain: Job) -> None:
    grain.ok(
        """
        from grain._src.python.dataset.dataset import Rows, Twice
        pipeline = Twice(Rows([1, 2, 3]))
        for epoch in range(2):
            assert list(pipeline) == [2, 4, 6]
        """
    )
    ring = grain.ring()
    assert [(b.epoch, b.index) for b in ring.batches] == [(e, i) for e in (0, 1) for i in range(3)]
    assert [each["batches"] for each in (e.text for e in ring.of_kind("epoch_end"))] == [3, 3]
    assert len(ring.of_kind("epoch_start")) == 2
    assert [(told["id"], told["batch_size"], told["dataset"]) for told in ring.loaders()] == [
        (1, 4, "builtins.list")
    ]


def test_iterators_of_one_class_inside_and_at_the_end_of_pipelines_are_told_apart(
    grain: Job,
) -> None:
    grain.ok(
        """
        from grain._src.python.dataset.dataset import Rows, Twice
        assert list(Rows([1])) == [1]
        assert list(Twice(Rows([1, 2]))) == [2, 4]
        """
    )
    assert [(b.loader, b.index) for b in grain.ring().batches] == [(1, 0), (2, 0), (2, 1)]


def test_grains_worker_processes_are_counted_as_workers(grain: Job) -> None:
    grain.ok(
        """
        from grain._src.python.dataset.dataset import *
        shards = [ProcessPrefetchIterDataset(Rows([1])) for _ in range(2)]
        assert list(Interleave(*shards)) == [2]
        """
    )
    ring = grain.ring()
    assert [told["num_workers"] for told in ring.loaders()] == [2]
    assert all(batch.flags & 2 for batch in ring.batches)


def test_threads_that_fetch_ahead_and_worker_processes_are_no_ranks(grain: Job) -> None:
    grain.ok(
        """
        import threading
        from grain._src.python.dataset.dataset import Rows
        import grain._src.python.dataset.transformations.process_prefetch as worker
        thread = threading.Thread(target=lambda: list(Rows([1])))
        thread.start(); thread.join()
        worker._is_in_worker_process = True
        assert list(Rows([1])) == [1]
        """
    )
    assert grain.rings() == []


def test_webdataset_without_a_loader_is_timed_and_stays_an_iterator(webdataset: Job) -> None:
    webdataset.ok(
        """
        from webdataset.pipeline import DataPipeline
        pipeline = DataPipeline([1, 2], lambda source: (2 * each for each in source))
        iterator = iter(pipeline)
        assert iter(iterator) is iterator and next(iterator) == 2
        iterator.close()
        assert list(pipeline) == [2, 4]
        """
    )
    ring = webdataset.ring()
    assert [(b.epoch, b.index) for b in ring.batches] == [(0, 0), (1, 0), (1, 1)]
    assert {b.loader for b in ring.batches} == {1}


def test_webloader_counts_once_with_its_loaders_workers(webdataset: Job) -> None:
    """A pipeline around a loader, itself around a pipeline: the outermost is the wait."""
    webdataset.ok(
        """
        from webdataset.pipeline import DataPipeline
        class Loader:
            num_workers, batch_size = 3, 8
            def __iter__(self): return iter(DataPipeline([1, 2]))
        assert list(DataPipeline(Loader())) == [1, 2]
        """
    )
    ring = webdataset.ring()
    assert [(b.loader, b.index) for b in ring.batches] == [(1, 0), (1, 1)]
    assert [(told["num_workers"], told["batch_size"]) for told in ring.loaders()] == [(3, 8)]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pipeline_in_a_process_of_the_users_own_is_no_training(
    webdataset: Job, method: str
) -> None:
    """A prefetching process that hands samples over through a queue."""
    webdataset.ok(
        f"""
        import multiprocessing
        from webdataset.pipeline import DataPipeline
        def fetch(queue):
            for sample in DataPipeline([1, 2]): queue.put(sample)
        if __name__ == "__main__":
            context = multiprocessing.get_context("{method}")
            queue = context.Queue()
            process = context.Process(target=fetch, args=(queue,))
            process.start()
            assert [queue.get(), queue.get()] == [1, 2]
            process.join()
            assert list(DataPipeline([3])) == [3]
        """
    )
    assert [batch.index for batch in webdataset.ring().batches] == [0]


def test_error_in_a_pipeline_reaches_the_user_and_the_ring(webdataset: Job) -> None:
    webdataset.ok(
        """
        from webdataset.pipeline import DataPipeline
        def broken(source):
            yield next(source)
            raise OSError("no such shard")
        try: list(DataPipeline([1, 2], broken))
        except OSError as error: assert str(error) == "no such shard"
        else: raise AssertionError
        """
    )
    ring = webdataset.ring()
    assert len(ring.batches) == 1
    assert [each.text["error"] for each in ring.of_kind("error")] == ["OSError"]


@pytest.mark.parametrize("module", ["grain._src.python.dataset.dataset", "webdataset.pipeline"])
def test_another_version_without_these_names_is_left_alone(job: Job, module: str) -> None:
    install(job, {module.replace(".", "/") + ".py": "value = 1"})
    assert job.ok(f"import {module} as module; print(module.value)") == "1\n"

"""The rules of judging one stack, each in the smallest stack that shows it."""

from __future__ import annotations

import pytest

from slurm_io.frames.thread import SUB_STATES, ThreadState, judge_thread
from slurm_io.stacktext.model import Frame
from tests.frames.stacks import BOOTSTRAP, FETCH, FORKED, LOADER, MODULE, TABLE, stack


def judge(*lines: str, is_main: bool | None = None) -> ThreadState:
    state = judge_thread(stack(*lines), TABLE, is_main)
    assert state.sub is None or state.sub in SUB_STATES
    return state


GET = "Queue.get (multiprocessing/queues.py:113)"
SELECT = "_PollLikeSelector.select (selectors.py:415)"


@pytest.mark.parametrize("names", ["qualified", "bare"])
def test_a_forked_worker_is_judged_by_its_own_frames_alone(names: str) -> None:
    lines: tuple[str, ...] = (SELECT, GET, *FORKED)
    if names == "bare":
        lines = tuple(
            line.partition(" ")[0].rpartition(".")[2] + " " + line.partition(" ")[2]
            for line in lines
        )
    state = judge(*lines)
    assert (state.role, state.state, state.sub) == ("worker", "other", "idle")


def test_the_same_frames_without_the_worker_loop_are_the_ranks_wait() -> None:
    state = judge(SELECT, GET, *LOADER)
    assert (state.role, state.state, state.sub, state.certain) == (
        "main",
        "data_wait",
        "workers",
        True,
    )


@pytest.mark.parametrize(
    ("inner", "state", "sub"),
    [
        (("TarFile.open (tarfile.py:1804)",), "data_wait", "reading"),
        (("recv_into (ssl.py:1)", "get_object (botocore/client.py:3)"), "data_wait", "reading"),
        (("ImageFile.load (PIL/ImageFile.py:425)",), "compute", "decoding"),
        (("forward (torchvision/transforms/v2/_transform.py:3)",), "compute", "transform"),
        (("Module._call_impl (torch/nn/modules/module.py:1)",), "compute", "transform"),
        (("D.__getitem__ (train.py:9)",), "other", "unknown"),
        (("_sum (numpy/_core/_methods.py:49)", "D.__getitem__ (train.py:9)"), "other", "unknown"),
        (("memmap.__getitem__ (numpy/core/memmap.py:1)",), "other", "unknown"),
        (
            (
                "_sum (numpy/_core/_methods.py:49)",
                "normalize (torchvision/transforms/functional.py:3)",
            ),
            "compute",
            "transform",
        ),
        (
            (
                "_sum (numpy/_core/_methods.py:49)",
                "compose (albumentations/core.py:3)",
                "_MMapBinReader.read (megatron/core/datasets/indexed_dataset.py:372)",
            ),
            "other",
            "unknown",
        ),
        (
            ("read (webdataset/gopen.py:94)", "decode (webdataset/autodecode.py:3)"),
            "data_wait",
            "reading",
        ),
        (
            ("Condition.wait (threading.py:327)", "fetch (fsspec/asyn.py:103)"),
            "data_wait",
            "reading",
        ),
    ],
)
def test_what_a_worker_does_in_its_fetch(inner: tuple[str, ...], state: str, sub: str) -> None:
    told = judge(*inner, FETCH, *FORKED)
    assert (told.role, told.state, told.sub) == ("worker", state, sub)


def test_numpy_below_a_fetch_is_never_called_compute_with_certainty() -> None:
    """Reading through a memmap shows numpy and no read: the system side has to tell."""
    for frame in ("_sum (numpy/_core/_methods.py:49)", "mean (numpy/core/fromnumeric.py:3)"):
        told = judge(frame, "D.__getitem__ (train.py:1)", FETCH, *FORKED)
        assert told.state != "compute"
        alone = judge(frame, "get_batch (train.py:1)", MODULE)
        assert alone.state == "other" or not alone.certain


def test_memmap_on_the_training_thread_is_unknown() -> None:
    told = judge("memmap.__getitem__ (numpy/_core/memmap.py:1)", "get_batch (train.py:3)", MODULE)
    assert (told.state, told.sub) == ("other", "unknown")


def test_without_workers_the_wait_is_what_the_fetch_does() -> None:
    told = judge("TarFile.open (tarfile.py:1804)", "D.__getitem__ (train.py:1)", FETCH, *LOADER)
    assert (told.state, told.sub) == ("data_wait", "reading")
    told = judge("collate (torch/utils/data/_utils/collate.py:118)", FETCH, *LOADER)
    assert (told.state, told.sub) == ("data_wait", "collate")


@pytest.mark.parametrize(
    ("inner", "state", "sub"),
    [
        (
            (
                "all_reduce (torch/distributed/distributed_c10d.py:1)",
                "save (torch/distributed/checkpoint/state_dict_saver.py:1)",
            ),
            "ckpt",
            None,
        ),
        (("barrier (torch/distributed/distributed_c10d.py:1)",), "collective", None),
        (
            (
                "broadcast (torch/distributed/distributed_c10d.py:1)",
                "_fetch_batches (accelerate/data_loader.py:806)",
            ),
            "data_wait",
            "dispatcher",
        ),
        (
            (
                "get_data (<frozen importlib._bootstrap_external>:1)",
                "async_save (torch/distributed/checkpoint/state_dict_saver.py:1)",
            ),
            "ckpt",
            "async",
        ),
        (
            ("get_data (<frozen importlib._bootstrap_external>:1)", "forward (model.py:3)"),
            "import",
            None,
        ),
        (
            (
                "Module._call_impl (torch/nn/modules/module.py:1)",
                "exec_module (<frozen importlib._bootstrap_external>:1)",
            ),
            "compute",
            None,
        ),
        (("load (torch/serialization.py:1)",), "other", "restore"),
        (
            (
                "_shutdown_workers (torch/utils/data/dataloader.py:1)",
                "_next_data (torch/utils/data/dataloader.py:2)",
            ),
            "data_wait",
            "epoch",
        ),
        (
            (
                "Connection._recv (multiprocessing/connection.py:395)",
                "DupFd.detach (multiprocessing/resource_sharer.py:57)",
                "rebuild_storage_fd (torch/multiprocessing/reductions.py:538)",
                GET,
                "_try_get_data (torch/utils/data/dataloader.py:3)",
            ),
            "data_wait",
            "receiving",
        ),
        (
            ("Condition.wait (threading.py:1)", "Event.wait (threading.py:2)", "f (train.py:1)"),
            "other",
            "waiting",
        ),
        (("synchronize (torch/cuda/__init__.py:9)",), "compute", "gpu"),
        (("TarFile.open (tarfile.py:1)", "f (train.py:1)"), "other", "reading"),
        (("f (train.py:1)",), "compute", None),
    ],
)
def test_which_frame_of_the_training_thread_decides(
    inner: tuple[str, ...], state: str, sub: str | None
) -> None:
    told = judge(*inner, "main (train.py:5)", MODULE)
    assert (told.state, told.sub) == (state, sub)


def test_a_thread_nobody_knows_computes_without_certainty() -> None:
    told = judge("f (train.py:1)", MODULE)
    assert not told.certain and told.why == "no library knows f (train.py:1)"


def test_a_writer_thread_is_a_checkpoint_that_blocks_nobody() -> None:
    told = judge(
        "_write_item (torch/distributed/checkpoint/filesystem.py:1)",
        "save_wrapper (torch/distributed/checkpoint/_async_thread_executor.py:30)",
        "_worker (concurrent/futures/thread.py:83)",
        *BOOTSTRAP,
    )
    assert (told.role, told.state, told.blocking) == ("writer", "ckpt", False)


def test_a_pool_thread_that_saves_is_a_writer_even_without_a_writers_frame() -> None:
    told = judge(
        "_save (torch/serialization.py:1)",
        "save (torch/serialization.py:1)",
        "_worker (concurrent/futures/thread.py:83)",
        *BOOTSTRAP,
    )
    assert (told.role, told.state, told.blocking) == ("writer", "ckpt", False)


PIN = "do_one_step (torch/utils/data/_utils/pin_memory.py:37)"
PIN_LOOP = "_pin_memory_loop (torch/utils/data/_utils/pin_memory.py:61)"


@pytest.mark.parametrize(
    ("inner", "sub"),
    [
        ((SELECT, GET, PIN), "idle"),
        (("pin_memory (torch/utils/data/_utils/pin_memory.py:70)", PIN), "receiving"),
        (("Condition.wait (threading.py:1)", "Queue.put (queue.py:140)", PIN), "put-blocked"),
    ],
)
def test_the_pin_thread_tells_late_workers_from_copies_from_a_slow_trainer(
    inner: tuple[str, ...], sub: str
) -> None:
    told = judge(*inner, PIN_LOOP, *BOOTSTRAP)
    assert (told.role, told.sub) == ("helper", sub)


def test_names_of_the_users_own_code_mean_nothing() -> None:
    """A scheduler's get_next_batch, a user's read() or save() in files of their own."""
    for line in (
        "get_next_batch_to_run (scheduler.py:2000)",
        "save (my/own/serialization.py:3)",
        "__next__ (mylib/dataloader.py:3)",
        "read (home/av/reader.py:1)",
        "get (queue.py/x.py:1)",
        "wait (/home/user/threading.py:1)",
    ):
        told = judge(line, MODULE)
        assert (told.state, told.certain) == ("compute", False), line


@pytest.mark.parametrize(
    "path",
    [
        "torch/utils/data/dataloader.py",
        "/opt/env/lib/python3.11/site-packages/torch/utils/data/dataloader.py",
        "/home/user/src/torch/utils/data/dataloader.py",
    ],
)
def test_paths_are_known_by_their_end(path: str) -> None:
    assert TABLE.meaning_of(Frame("__next__", path, 3)) is not None


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("queue.py", True),
        ("/usr/lib/python3.11/queue.py", True),
        ("/opt/x/lib/python3.13t/queue.py", True),
        ("/usr/lib/python3/queue.py", True),
        ("/opt/lib/python3.11/site-packages/queue.py", False),
        ("/home/user/queue.py", False),
        ("ray/util/queue.py", False),
    ],
)
def test_pythons_own_modules_are_told_from_namesakes(path: str, known: bool) -> None:
    assert (TABLE.meaning_of(Frame("get", path, 3)) is not None) is known


def test_modules_frozen_into_python_are_known() -> None:
    told = TABLE.meaning_of(Frame("walk", "<frozen os>", 3))
    assert told is not None and (told.what, told.note) == ("reading", "metadata")


def test_a_namespace_packages_shortened_path_is_known() -> None:
    assert TABLE.meaning_of(Frame("share_outputs", "dali/pipeline.py", 3)) is not None
    assert TABLE.meaning_of(Frame("share_outputs", "pipeline.py", 3)) is None


@pytest.mark.parametrize(
    ("lines", "sub"),
    [
        (
            ("TarFile.next (tarfile.py:2500)", "iterator1 (webdataset/pipeline.py:81)",
             "DataPipeline.iterator (webdataset/pipeline.py:103)"),
            "reading",
        ),
        (
            ("decode (train.py:9)", "DataPipeline.iterator (webdataset/pipeline.py:103)"),
            "unknown",
        ),
        (
            ("ArrowExamplesIterable._iter_arrow (datasets/iterable_dataset.py:380)",
             "IterableDataset.__iter__ (datasets/iterable_dataset.py:2300)"),
            "reading",
        ),
    ],
)  # fmt: skip
def test_a_loop_over_a_dataset_without_a_loader_waits_for_data(
    lines: tuple[str, ...], sub: str
) -> None:
    """It was `other` or `compute`: half of such a training was missing from its data wait."""
    state = judge(*lines, "train (train.py:31)", MODULE)
    assert (state.role, state.state, state.sub) == ("main", "data_wait", sub)
    beside = judge(*lines, *BOOTSTRAP)
    assert beside.role == "thread"


def test_a_save_below_a_datasets_fetch_is_a_save_only_when_it_is_the_outer_one() -> None:
    fetch = "DataPipeline.iterator (webdataset/pipeline.py:103)"
    save = "save (torch/serialization.py:1003)"
    assert judge(fetch, save, MODULE).state == "ckpt"


IMPORTING = (
    "_call_with_frames_removed (<frozen importlib._bootstrap>:241)",
    "_find_and_load (<frozen importlib._bootstrap>:1178)",
)


@pytest.mark.parametrize(
    "body",
    [
        ("<module> (torch/nn/parallel/distributed.py:36)",),
        ("<module> (torch/_dynamo/trace_rules.py:3145)",),
        ("<module> (torch/distributed/_functional_collectives.py:637)",),
        ("<module> (torch/distributed/checkpoint/staging.py:40)",),
        ("_is_type (dataclasses.py:705)", "<module> (torch/_dynamo/utils.py:1559)"),
        ("boolean_dispatch (torch/nn/functional.py:700)", "<module> (torch/nn/functional.py:900)"),
    ],
)
def test_importing_torch_is_no_training(body: tuple[str, ...]) -> None:
    """It was `compute`, `collective` or `ckpt`: without a hook the training seemed to have begun
    with `import torch`, twenty seconds early, and all shares were too small."""
    state = judge(*body, *IMPORTING, "main (train.py:3)", MODULE)
    assert (state.role, state.state, state.certain) == ("main", "import", True)


def test_training_in_the_body_of_an_imported_module_is_training() -> None:
    step = "SGD.step (torch/optim/sgd.py:116)"
    assert judge(step, "<module> (mytrain.py:20)", *IMPORTING, MODULE).state == "compute"


def test_the_body_of_a_library_that_is_the_program_itself_says_nothing() -> None:
    main = "<module> (torch/nn/parallel/distributed.py:36)"
    assert (judge(main).state, judge(main).certain) == ("compute", False)
    assert judge(*LOADER[:-1], main).state == "data_wait"

"""torchdata's StatefulDataLoader: PyTorch's loader with files of its own."""

from slurm_io.frames.base import LIBRARIES, Library, at

_LOADER = "torchdata/stateful_dataloader/stateful_dataloader.py"

LIBRARIES.register("stateful_dataloader")(
    Library(
        "0.8 to 0.11",
        (
            at(_LOADER, "data_wait", "__next__", "_next_data", "_get_data", "_try_get_data",
               "_process_data", "_try_put_index"),
            at(_LOADER, "data_wait", "__iter__", "_get_iterator", "__init__", "_reset",
               "_shutdown_workers", "__del__", "_clean_up_worker", note="epoch"),
            at("torchdata/stateful_dataloader/worker.py", "worker", "_worker_loop"),
        ),
    )
)  # fmt: skip

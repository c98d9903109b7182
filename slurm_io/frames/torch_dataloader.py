"""PyTorch's DataLoader, with and without workers, pinned or not, any start method."""

from slurm_io.frames.base import LIBRARIES, Library, at

_LOADER = "torch/utils/data/dataloader.py"
_UTILS = "torch/utils/data/_utils"

LIBRARIES.register("torch_dataloader")(
    Library(
        "1.13 to 2.14",
        (
            at(_LOADER, "data_wait", "__next__", "_next_data", "_get_data", "_try_get_data",
               "_process_data", "_try_put_index", "_next_index"),
            at(_LOADER, "data_wait", "__iter__", "_get_iterator", "__init__", "_reset",
               "_shutdown_workers", "__del__", "_clean_up_worker", note="epoch"),
            at(f"{_UTILS}/worker.py", "worker", "_worker_loop"),
            at(f"{_UTILS}/fetch.py", "fetch", "fetch"),
            at(f"{_UTILS}/collate.py", "collate"),
            at(f"{_UTILS}/pin_memory.py", "helper", "_pin_memory_loop", "do_one_step"),
            at(f"{_UTILS}/pin_memory.py", "receiving", "pin_memory"),
            at(f"{_UTILS}/signal_handling.py", "signal", "handler"),
            at("torch/multiprocessing/reductions.py", "receiving", "rebuild_storage_fd",
               "rebuild_storage_filename", "rebuild_tensor", "rebuild_cuda_tensor"),
            at("std:multiprocessing/resource_sharer.py", "receiving", "detach", "get_connection"),
        ),
    )
)  # fmt: skip

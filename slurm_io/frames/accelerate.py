"""accelerate: loaders that fetch one batch ahead, and the dispatcher where rank 0 alone reads.

The other ranks wait for it in a broadcast below ``_fetch_batches``: a data wait in a collective's
clothes.
"""

from slurm_io.frames.base import LIBRARIES, Library, at

_LOADER = "accelerate/data_loader.py"

LIBRARIES.register("accelerate")(
    Library(
        "0.20 to 1.15",
        (
            at(_LOADER, "data_wait", "__iter__", "__next__"),
            at(_LOADER, "data_wait", "_fetch_batches", note="dispatcher"),
            at("accelerate/accelerator.py", "ckpt", "save_state", "save_model", "save"),
            at("accelerate/checkpointing.py", "ckpt", "save_accelerator_state",
               "save_custom_state"),
            at("accelerate/accelerator.py", "restore", "load_state"),
            at("accelerate/checkpointing.py", "restore", "load_accelerator_state",
               "load_custom_state"),
            at("accelerate/utils/memory.py", "gc", "clear_device_cache", "release_memory"),
        ),
    )
)  # fmt: skip

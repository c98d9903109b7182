"""torch.distributed.checkpoint: `save`, the blocking part of `async_save`, its background thread
or process, and loads."""

from slurm_io.frames.base import LIBRARIES, Library, at

_DCP = "torch/distributed/checkpoint"

LIBRARIES.register("dcp")(
    Library(
        "torch 2.0 to 2.14",
        (
            at(f"{_DCP}/_async_thread_executor.py", "writer", "save_wrapper"),
            at(f"{_DCP}/_async_process_executor.py", "writer", "_checkpointing_subprocess",
               "_execute_save"),
            at(f"{_DCP}/_async_thread_executor.py", "ckpt", "execute_save", note="async"),
            at(f"{_DCP}/_async_process_executor.py", "ckpt", "execute_save",
               "_execute_save_impl", "_wait_for_response", note="async"),
            at(f"{_DCP}/state_dict_saver.py", "ckpt", "save", "save_state_dict",
               "_save_state_dict"),
            at(f"{_DCP}/state_dict_saver.py", "ckpt", "async_save", "stage_state_dict",
               "maybe_synchronize_staging", note="async"),
            at(f"{_DCP}/staging.py", "ckpt", note="async"),
            at(f"{_DCP}/_state_dict_stager.py", "ckpt", note="async"),
            at(f"{_DCP}/filesystem.py", "ckpt", "write_data", "_write_data", "finish",
               "_write_files_from_queue", "_write_item"),
            at(f"{_DCP}/state_dict_loader.py", "restore", "load", "load_state_dict",
               "_load_state_dict", "_load_state_dict_from_keys"),
        ),
    )
)  # fmt: skip

"""Megatron-LM: batches, its mapped datasets, and checkpoints whose "asynchronous" end can block.

``get_batch`` of non-zero tensor ranks waits in a broadcast for the rank that reads. The finalise of
an asynchronous save joins the writer process on the training thread.
"""

from slurm_io.frames.base import LIBRARIES, Library, at

_CKPT = "megatron/core/dist_checkpointing"
_STRATEGIES = f"{_CKPT}/strategies"
_DATA = "megatron/core/datasets"

LIBRARIES.register("megatron")(
    Library(
        "core 0.5 to 0.19",
        (
            *(at(f"pretrain_{model}.py", "data_wait", "get_batch")
              for model in ("gpt", "bert", "t5", "mamba", "retro", "vlm", "ict", "hybrid")),
            at("megatron/training/utils.py", "data_wait", "get_batch_on_this_tp_rank",
               "get_batch_on_this_cp_rank", note="dispatcher"),
            at(f"{_DATA}/indexed_dataset.py", "mapped", "read", "get", "__getitem__",
               note="memmap"),
            at(f"{_DATA}/gpt_dataset.py", "mapped", "__getitem__",
               "_query_document_sample_shuffle_indices", note="memmap"),
            at(f"{_DATA}/blended_dataset.py", "mapped", "__getitem__", note="memmap"),
            at(f"{_CKPT}/serialization.py", "ckpt", "save"),
            # A synchronous save runs through async_save too: its name proves nothing.
            at(f"{_STRATEGIES}/base.py", "ckpt", "save", "async_save"),
            at(f"{_STRATEGIES}/fully_parallel.py", "ckpt", "save", "async_save",
               "apply_saving_parallelization"),
            at(f"{_STRATEGIES}/torch.py", "ckpt", "async_save"),
            at(f"{_STRATEGIES}/async_utils.py", "ckpt", "schedule_async_call",
               "schedule_async_request", "maybe_finalize_async_calls",
               "is_current_async_call_done", "sync_all_async_calls", "close", note="async"),
            at(f"{_STRATEGIES}/async_utils.py", "ckpt", "execute_sync"),
            at(f"{_STRATEGIES}/async_utils.py", "writer", "async_loop"),
            at(f"{_STRATEGIES}/filesystem_async.py", "ckpt", "prepare_write_data",
               "preload_tensors", "retrieve_write_results", "finish",
               "write_preloaded_data_multiproc", "write_preloaded_data_multithread"),
            at(f"{_STRATEGIES}/filesystem_async.py", "writer", "write_preloaded_data"),
            at("megatron/training/training.py", "ckpt", "save_checkpoint_and_time"),
            at("megatron/training/checkpointing.py", "ckpt", "save_checkpoint"),
            at("megatron/training/async_utils.py", "ckpt", "maybe_finalize_async_save",
               "schedule_async_save", note="async"),
            at("megatron/training/checkpointing.py", "restore", "load_checkpoint"),
            at(f"{_CKPT}/serialization.py", "restore", "load"),
            at("megatron/core/pipeline_parallel/p2p_communication.py", "collective"),
        ),
    )
)  # fmt: skip

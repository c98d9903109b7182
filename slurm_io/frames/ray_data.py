"""Ray Data: the consumer's side. What it waits for runs in other processes, on other nodes too."""

from slurm_io.frames.base import LIBRARIES, Library, at

_BATCHING = "ray/data/_internal/block_batching"

LIBRARIES.register("ray_data")(
    Library(
        "2.5 to 2.60",
        (
            at(f"{_BATCHING}/iter_batches.py", "data_wait", "get_next_batch_context",
               "_iter_batches", "prefetch_batches_locally", "restore_original_order",
               "_pipeline"),
            at(f"{_BATCHING}/iter_batches.py", "data_wait", "before_epoch_start", note="epoch"),
            at("ray/data/iterator.py", "data_wait", "_iter_batches", "__iter__"),
            at(f"{_BATCHING}/util.py", "collate", "_collate_batch", "collate"),
            at(f"{_BATCHING}/util.py", "transform", "_format_batch", "format_batches"),
            at(f"{_BATCHING}/util.py", "receiving", "resolve_block_refs"),
            at(f"{_BATCHING}/util.py", "helper", "_worker", "_run", "execute_computation"),
        ),
    )
)  # fmt: skip

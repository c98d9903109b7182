"""JAX Grain: iterators that wait for threads or worker processes, and its readers."""

from slurm_io.frames.base import LIBRARIES, Library, at

_PYTHON = "grain/_src/python"
_STEPS = f"{_PYTHON}/dataset/transformations"

LIBRARIES.register("grain")(
    Library(
        "0.2",
        (
            at(f"{_PYTHON}/data_loader.py", "data_wait", "__next__"),
            at(f"{_STEPS}/prefetch.py", "data_wait", "__next__"),
            at(f"{_STEPS}/process_prefetch.py", "data_wait", "__next__"),
            at(f"{_STEPS}/prefetch.py", "helper", "_put_iterator_elements_in_buffer"),
            at(f"{_STEPS}/prefetch.py", "fetch", "_getitem"),
            at(f"{_STEPS}/process_prefetch.py", "worker", "_put_dataset_elements_in_buffer"),
            at(f"{_PYTHON}/data_sources.py", "reading", "__getitem__", "__getitems__"),
            at(f"{_STEPS}/source.py", "fetch", "__getitem__", "_getitems"),
            at(f"{_PYTHON}/dataset/sources/parquet_dataset.py", "reading"),
            at(f"{_PYTHON}/dataset/sources/tfrecord_dataset.py", "reading"),
            at("array_record/python/array_record_data_source.py", "reading"),
            at(f"{_STEPS}/map.py", "transform"),
            at(f"{_STEPS}/batch.py", "collate", "_stack", "make_batch", "__call__",
               "batch_and_pad"),
        ),
    )
)  # fmt: skip

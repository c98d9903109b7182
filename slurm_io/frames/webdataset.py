"""WebDataset: tar shards, also through the pipe of a child process (curl, aws), which does the
reading: here it shows as a read of a pipe."""

from slurm_io.frames.base import LIBRARIES, Library, at

LIBRARIES.register("webdataset")(
    Library(
        "0.2 to 1.0",
        (
            at("webdataset/pipeline.py", "fetch", "iterator", "iterator1", "__iter__"),
            at("webdataset/compat.py", "fetch", "__iter__"),
            at("webdataset/gopen.py", "reading"),
            at("webdataset/tariterators.py", "reading", "url_opener", "tar_file_iterator"),
            at("webdataset/cache.py", "reading"),
            at("webdataset/autodecode.py", "decoding"),
            at("webdataset/filters.py", "collate", "default_collation_fn", "_batched",
               "combine_tensors", "combine_arrays"),
        ),
    )
)  # fmt: skip

"""litdata: chunks fetched by a thread, samples read from mapped or opened chunk files."""

from slurm_io.frames.base import LIBRARIES, Library, at

_STREAMING = "litdata/streaming"

LIBRARIES.register("litdata")(
    Library(
        "0.2",
        (
            at(f"{_STREAMING}/dataset.py", "fetch", "__next__", "__getitem__"),
            at(f"{_STREAMING}/dataloader.py", "data_wait", "__iter__", "__next__"),
            at(f"{_STREAMING}/item_loader.py", "wait", "_wait_until_chunk_ready"),
            at(f"{_STREAMING}/item_loader.py", "reading", "_load_data", "_open_chunk_file",
               "pre_load_chunk", "_load_encrypted_data", "_open_parquet_file"),
            at(f"{_STREAMING}/item_loader.py", "mapped", "_slice_item_bytes", "_fill_item_page",
               "_ensure_chunk_mmap", "_load_chunk", "deserialize", "mds_deserialize",
               "_batch_deserialize_payload", note="memmap"),
            # A tensor that is copied out of a mapped chunk reads its pages.
            at(f"{_STREAMING}/serializers.py", "mapped", "deserialize", note="memmap"),
            at(f"{_STREAMING}/compression.py", "decoding"),
            at(f"{_STREAMING}/reader.py", "reading", "_download_chunk_indexes", "_force_download",
               "_pre_load_chunk"),
            at(f"{_STREAMING}/reader.py", "helper", "run"),
            at(f"{_STREAMING}/downloader.py", "reading"),
        ),
    )
)  # fmt: skip

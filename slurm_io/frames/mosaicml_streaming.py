"""MosaicML Streaming: shards fetched and unpacked by threads of the worker, which sleeps 7 ms at a
time until a sample's shard is there."""

from slurm_io.frames.base import LIBRARIES, Library, at

_BASE = "streaming/base"

LIBRARIES.register("mosaicml_streaming")(
    Library(
        "0.7 to 0.13",
        (
            at(f"{_BASE}/dataset.py", "fetch", "__iter__", "__getitem__", "get_item"),
            at(f"{_BASE}/array.py", "fetch", "__getitem__"),
            at(f"{_BASE}/dataset.py", "wait", "_each_sample_id", "prepare_shard"),
            at(f"{_BASE}/dataset.py", "helper", "_prepare_thread", "_ready_thread"),
            at(f"{_BASE}/stream.py", "reading", "prepare_shard", "_prepare_shard_part",
               "_download_file"),
            at(f"{_BASE}/stream.py", "decoding", "_decompress_shard_part"),
            at(f"{_BASE}/storage/download.py", "reading"),
            at(f"{_BASE}/format/mds/reader.py", "reading", "get_sample_data"),
            at(f"{_BASE}/format/json/reader.py", "reading", "get_sample_data"),
            at(f"{_BASE}/format/xsv/reader.py", "reading", "get_sample_data"),
            at(f"{_BASE}/format/mds/reader.py", "decoding", "decode_sample"),
            at(f"{_BASE}/format/mds/encodings.py", "decoding"),
            at(f"{_BASE}/compression.py", "decoding"),
            at(f"{_BASE}/dataset.py", "fetch", "_get_work"),
        ),
    )
)  # fmt: skip

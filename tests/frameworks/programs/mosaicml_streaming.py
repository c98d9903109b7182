"""MosaicML Streaming: MDS shards in a local folder, `StreamingDataLoader` with workers."""

from __future__ import annotations

import importlib.util
import sys
import types

import tiny
import transformers  # noqa: F401 - before the stand-in: it asks whether there is a torchvision
import truth


def _stand_in_for_torchvision():
    """`import streaming` wants torchvision for its picture datasets, which are not used here; its
    builds for torch without CUDA are on torch's own index only."""
    if importlib.util.find_spec("torchvision") is not None:
        return
    for name, attribute in (
        ("torchvision", "io"),
        ("torchvision.datasets", "VisionDataset"),
        ("torchvision.transforms", "functional"),
        ("torchvision.transforms.functional", "to_tensor"),
    ):
        module = types.ModuleType(name)
        module.__path__ = []
        setattr(module, attribute, type(attribute, (), {}))
        sys.modules[name] = module


_stand_in_for_torchvision()
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset  # noqa: E402


def prepare(folder):
    target = str(folder / "mds")
    with MDSWriter(out=target, columns={"bin": "bytes"}, size_limit=8 << 20) as writer:
        for index in range(truth.SAMPLES):
            writer.write({"bin": truth.sample_bytes(index)})


class Samples(StreamingDataset):
    def __getitem__(self, index):
        return tiny.as_tensor(super().__getitem__(index)["bin"])


def main():
    options = truth.read_arguments()
    if options.prepare:
        prepare(options.data)
        return
    watch = truth.Stopwatch(options)
    samples = Samples(local=str(options.data / "mds"), shuffle=False, batch_size=truth.BATCH)
    loader = StreamingDataLoader(
        samples, batch_size=truth.BATCH, num_workers=options.workers,
        persistent_workers=options.workers > 0,
    )  # fmt: skip
    tiny.train(watch, loader, options.saves)
    watch.write()


if __name__ == "__main__":
    main()

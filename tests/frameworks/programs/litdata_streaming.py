"""litdata: optimized chunks in a local folder, `StreamingDataLoader` with workers."""

from __future__ import annotations

import litdata
import tiny
import truth


def as_sample(index):
    return truth.sample_bytes(index)


def prepare(folder):
    litdata.optimize(
        fn=as_sample, inputs=list(range(truth.SAMPLES)), output_dir=str(folder / "chunks"),
        chunk_bytes="4MB", num_workers=1,
    )  # fmt: skip


class Samples(litdata.StreamingDataset):
    def __getitem__(self, index):
        return tiny.as_tensor(super().__getitem__(index))


def main():
    options = truth.read_arguments()
    if options.prepare:
        prepare(options.data)
        return
    watch = truth.Stopwatch(options)
    loader = litdata.StreamingDataLoader(
        Samples(str(options.data / "chunks")), batch_size=truth.BATCH, num_workers=options.workers,
        persistent_workers=options.workers > 0,
    )  # fmt: skip
    tiny.train(watch, loader, options.saves)
    watch.write()


if __name__ == "__main__":
    main()

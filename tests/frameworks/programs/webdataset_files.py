"""WebDataset over tar files: `wds.WebLoader` with workers."""

from __future__ import annotations

import tiny
import truth
import webdataset as wds

SHARDS = 8


def prepare(folder):
    with wds.ShardWriter(str(folder / "%02d.tar"), maxcount=truth.SAMPLES // SHARDS) as writer:
        for index in range(truth.SAMPLES):
            writer.write({"__key__": f"{index:06d}", "bin": truth.sample_bytes(index)})


def decode(sample):
    return tiny.as_tensor(sample["bin"])


def make_loader(urls, workers):
    samples = wds.WebDataset(urls, shardshuffle=False, empty_check=False).map(decode)
    return wds.WebLoader(
        samples, batch_size=truth.BATCH, num_workers=workers, persistent_workers=workers > 0
    )


def main(url="{folder}/{{00..07}}.tar"):
    options = truth.read_arguments()
    if options.prepare:
        prepare(options.data)
        return
    watch = truth.Stopwatch(options)
    loader = make_loader(url.format(folder=options.data), options.workers)
    tiny.train(watch, loader, options.saves)
    watch.write()


if __name__ == "__main__":
    main()

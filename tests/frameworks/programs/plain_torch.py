"""PyTorch by itself: one file a sample, a DataLoader with workers, torch.save."""

from __future__ import annotations

import tiny
import truth
from torch.utils.data import DataLoader, Dataset


class Files(Dataset):
    def __init__(self, folder):
        self.folder = folder

    def __len__(self):
        return truth.SAMPLES

    def __getitem__(self, index):
        with open(self.folder / f"{index:04d}.bin", "rb") as file:
            return tiny.as_tensor(file.read())


def prepare(folder):
    for index in range(truth.SAMPLES):
        (folder / f"{index:04d}.bin").write_bytes(truth.sample_bytes(index))


def main():
    options = truth.read_arguments()
    if options.prepare:
        prepare(options.data)
        return
    watch = truth.Stopwatch(options)
    loader = DataLoader(
        Files(options.data), truth.BATCH, shuffle=True, num_workers=options.workers,
        persistent_workers=options.workers > 0,
    )  # fmt: skip
    tiny.train(watch, loader, options.saves)
    watch.write()


if __name__ == "__main__":
    main()

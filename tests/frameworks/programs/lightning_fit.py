"""Lightning's Trainer: its own profiler is the stopwatch (fetching and `save_checkpoint`)."""

from __future__ import annotations

import logging
import time
import warnings

import lightning
import plain_torch
import tiny
import torch
import truth
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.profilers import Profiler
from torch.utils.data import DataLoader


class Watching(Profiler):
    """Lightning calls this around every fetch of its training loop and every checkpoint."""

    def __init__(self, watch):
        super().__init__()
        self.watch = watch
        self.running = {}

    def start(self, action_name):
        if action_name.endswith(".train_dataloader_next"):
            self.running[action_name] = self.watch.started("waits")
        elif action_name == "save_checkpoint":
            self.running[action_name] = self.watch.started("saves")

    def stop(self, action_name):
        started = self.running.pop(action_name, None)
        if started is not None:
            self.watch.ended(started)


class Module(lightning.LightningModule):
    def __init__(self, watch):
        super().__init__()
        self.watch = watch
        self.model = tiny.make_model()

    def training_step(self, batch, index):
        loss = self.model(tiny.features(batch)).pow(2).mean()
        time.sleep(truth.STEP_S)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)

    def on_train_batch_end(self, outputs, batch, index):
        self.watch.step_ended()
        if self.watch.is_over():
            self.trainer.should_stop = True


def main():
    options = truth.read_arguments()
    if options.prepare:
        plain_torch.prepare(options.data)
        return
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    watch = truth.Stopwatch(options)
    loader = DataLoader(
        plain_torch.Files(options.data), truth.BATCH, shuffle=True, num_workers=options.workers,
        persistent_workers=options.workers > 0,
    )  # fmt: skip
    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=-1, logger=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=str(options.saves), profiler=Watching(watch),
        callbacks=[ModelCheckpoint(dirpath=str(options.saves), every_n_train_steps=25)],
    )  # fmt: skip
    trainer.fit(Module(watch), loader)
    watch.end_ns = max(watch.end_ns, *(save[1] for save in watch.lists["saves"]))
    watch.write()


if __name__ == "__main__":
    main()

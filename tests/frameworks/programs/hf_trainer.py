"""Hugging Face's Trainer with accelerate's loader; a subclass of it is the stopwatch."""

from __future__ import annotations

import time

import plain_torch
import tiny
import torch
import transformers
import truth


class Config(transformers.PretrainedConfig):
    model_type = "tiny"


class Model(transformers.PreTrainedModel):
    config_class = Config

    def __init__(self, config):
        super().__init__(config)
        self.model = tiny.make_model()
        self.post_init()

    def forward(self, samples):
        loss = self.model(tiny.features(samples)).pow(2).mean()
        time.sleep(truth.STEP_S)
        return {"loss": loss}


class Files(plain_torch.Files):
    def __getitem__(self, index):
        return {"samples": super().__getitem__(index)}


def collate(samples):
    return {"samples": torch.stack([sample["samples"] for sample in samples])}


class Trainer(transformers.Trainer):
    """Times its own two methods: where batches are taken and where a checkpoint is saved."""

    watch = None

    def get_batch_samples(self, *arguments, **named):
        return self.watch.timed(
            "waits", lambda: super(Trainer, self).get_batch_samples(*arguments, **named)
        )

    def _save_checkpoint(self, *arguments, **named):
        return self.watch.timed(
            "saves", lambda: super(Trainer, self)._save_checkpoint(*arguments, **named)
        )


class Stop(transformers.TrainerCallback):
    """Ends the training when its time is over."""

    def __init__(self, watch):
        self.watch = watch

    def on_step_end(self, args, state, control, **named):
        self.watch.step_ended()
        control.should_training_stop = self.watch.is_over()
        return control


def main():
    options = truth.read_arguments()
    if options.prepare:
        plain_torch.prepare(options.data)
        return
    watch = Trainer.watch = truth.Stopwatch(options)
    arguments = transformers.TrainingArguments(
        output_dir=str(options.saves), use_cpu=True, per_device_train_batch_size=truth.BATCH,
        dataloader_num_workers=options.workers, dataloader_persistent_workers=options.workers > 0,
        dataloader_pin_memory=False, num_train_epochs=1000, save_steps=25, save_total_limit=1,
        report_to=[], disable_tqdm=True, logging_strategy="no", remove_unused_columns=False,
        optim="sgd",
    )  # fmt: skip
    trainer = Trainer(
        Model(Config()), arguments, train_dataset=Files(options.data), data_collator=collate,
        callbacks=[Stop(watch)],
    )  # fmt: skip
    trainer.train()
    watch.end_ns = max(watch.end_ns, *(save[1] for save in watch.lists["saves"]))
    watch.write()


if __name__ == "__main__":
    main()

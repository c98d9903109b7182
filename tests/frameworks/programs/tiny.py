"""A tiny torch model, its step, its checkpoint."""

from __future__ import annotations

import time

import torch
from truth import FEATURES, STEP_S

torch.set_num_threads(1)


def make_model():
    layers = [torch.nn.Linear(FEATURES, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)]
    model = torch.nn.Sequential(*layers)
    model.register_buffer("filler", torch.zeros(6 << 20, dtype=torch.uint8))
    return model


def features(samples):
    """Rows of bytes as the model's input."""
    return samples[:, -FEATURES:].float() / 255


def as_tensor(data):
    """A sample's bytes, copied out of whatever holds them: reading through a map happens here."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def train(watch, loader, saves):
    """A plain loop over a loader of byte batches."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for batch in watch.batches(loader):
        optimizer.zero_grad()
        model(features(batch)).pow(2).mean().backward()
        time.sleep(STEP_S)
        optimizer.step()
        watch.step_ended()
        if watch.is_save_due():
            watch.timed("saves", torch.save, model.state_dict(), saves / "model.pt")
            watch.end_ns = time.monotonic_ns()

"""Logs as tests need them: parsed whole, and lines of every known form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slurm_io.joblog.model import Kind, LogRecord
from slurm_io.joblog.tail import LogTail

CASES = Path(__file__).parents[1] / "fixtures" / "cases"


def parse(data: bytes | str, kind: Kind | None = None) -> list[LogRecord]:
    """All records of a whole log, or those of one kind."""
    tail = LogTail()
    tail.feed(data.encode() if isinstance(data, str) else data)
    records = tail.take(last=True)
    assert tail.counts.faults == 0
    return [record for record in records if kind in (None, record.kind)]


def only(data: bytes | str, kind: Kind | None = None) -> LogRecord:
    """The one record of a log."""
    [record] = parse(data, kind)
    return record


def case(name: str) -> dict[str, Any]:
    """What is expected of a case."""
    expected: dict[str, Any] = json.loads((CASES / name / "expected.json").read_text())
    return expected


def case_log(name: str, file: str = "log.txt") -> bytes:
    """A log of a case."""
    return (CASES / name / file).read_bytes()


def line_of(data: bytes, at_byte: int) -> int:
    """Number of the line, from 1, that holds a byte."""
    return data.count(b"\n", 0, at_byte) + 1


MEGATRON = (
    " [2025-06-01 10:00:{second:02d}.250000] iteration {step:8d}/  500000 | consumed samples: "
    "{samples:12d} | elapsed time per iteration (ms): 2500.0 | throughput per GPU (TFLOP/s/GPU): "
    "400.1 | learning rate: 3.000000E-04 | global batch size:  1024 | lm loss: 2.500000E+00 | "
    "loss scale: 1.0 | grad norm: 0.300 | number of skipped iterations:   0 | number of nan "
    "iterations:   0 |"
)
ONE_OF_EACH = {
    "megatron": MEGATRON.format(second=7, step=20, samples=20480),
    "nanotron": "06/01/2025 10:00:00 [INFO|DP=0|PP=0|TP=0|n1]: iteration: 20 / 1000 | "
    "consumed_tokens: 80M | time_per_iteration_ms: 2.1K | tokens_per_sec: 1.95M | "
    "tokens_per_sec_per_gpu: 15.2K | global_batch_size: 1K | lm_loss: 2.5 | lr: 0.0003",
    "hf_trainer": "{'loss': '2.5', 'grad_norm': '1.2', 'learning_rate': '3e-05', 'epoch': '1.2'}",
    "lightning": "Epoch 3:  20%|██        | 20/100 [00:50<03:20,  0.40it/s, v_num=7, loss=2.50]",
    "nemo": "Training epoch 0, iteration 20/999 | lr: 3e-05 | global_batch_size: 64 | "
    "global_step: 20 | reduced_train_loss: 2.5 | train_step_timing in s: 2.5 | "
    "consumed_samples: 1344",
    "deepspeed": "[2025-06-01 10:00:07,250] [INFO] [timer.py:260:stop] epoch=0/micro_step=80/"
    "global_step=20, RunningAvgSamplesPerSec=400.5, CurrSamplesPerSec=410.25, "
    "MemAllocated=1.0GB, MaxMemAllocated=2.0GB",
    "torchtitan": "[rank0]:[titan] 2025-06-01 10:00:07,250 - root - INFO - step: 20  loss:  "
    "2.5000  grad_norm:  1.0000  memory: 60.00GiB(63.00%)  tps: 7,425  tflops: 430.1  mfu: 43.49%",
    "composer": "[batch=20/100]:\n\t Train time/batch: 19\n\t Train loss/train/total: 2.5\n"
    "\t Train throughput/batches_per_sec: 0.4000\n\t Train throughput/samples_per_sec: 25.6000",
    "open_clip": "2025-06-01,10:00:07 | INFO | Train Epoch: 0 [ 20480/1024000 (2%)] Data (t): "
    "0.125 Batch (t): 2.500, 409.600/s, 51.2000/s/gpu LR: 0.000300 Logit Scale: 14.000 "
    "Contrastive_loss: 2.5000 (2.6000)",
    "fairseq": "2025-06-01 10:00:07 | INFO | train_inner | epoch 001:     20 / 1000 loss=2.5, "
    "ppl=5.66, wps=40000, ups=0.4, wpb=100000, bsz=1024, num_updates=20, lr=0.0003, gnorm=1.2, "
    "loss_scale=16, train_wall=48, wall=60",
    "timm": "Train: 0 [  20/1251 (  2%)]  Loss: 2.500 (2.60)  Time: 2.500s,  409.60/s  "
    "(2.600s,  393.85/s)  LR: 1.000e-06  Data: 0.125 (0.250)",
    "imagenet": "Epoch: [0][  20/5005]\tTime  2.500 ( 2.600)\tData  0.125 ( 0.250)\tLoss "
    "2.5000e+00 (2.6000e+00)\tAcc@1   1.00 (  0.90)",
    "mmengine": "06/01 10:00:07 - mmengine - INFO - Epoch(train)  [1][  20/3125]  lr: 1.0000e-01  "
    "eta: 6:12:01  time: 2.5000  data_time: 0.1250  memory: 214  loss: 2.5000",
    "nanogpt": "iter 20: loss 2.5000, time 2500.00ms, mfu 23.40%",
    "maxtext": "completed step: 20, seconds: 2.500, TFLOP/s/device: 134.924, Tokens/s/device: "
    "8672.758, total_weights: 196608, loss: 2.500",
    "tqdm": " 20%|██        | 20/100 [00:50<03:20,  2.50s/it]",
}
"""A line (or block, or bar) of each form: where it says a time, a step took 2.5 s."""

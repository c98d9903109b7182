"""The shape of report.json, schema 1: which keys, which types, nothing else."""

from __future__ import annotations

from typing import Any

NUMBER = (int, float, type(None))
TEXT = (str, type(None))
WORDS: dict[str, Any] = {
    "verdict": {
        "storage", "checkpoint", "cpu-prep", "pipeline", "not-storage", "healthy", "not-proven",
    },
    "confidence": {"proven", "likely", "not-proven"},
    "severity": {"info", "warn", "bad"},
    "state": {"on", "partial", "off"},
}  # fmt: skip
_EVIDENCE = {
    "text": str, "metric": str, "value": NUMBER, "threshold": NUMBER, "from": TEXT, "to": TEXT,
}  # fmt: skip
_RANGE = {"low": NUMBER, "value": float, "high": NUMBER}
_STACK_SHARE = {
    "share": float, "low": float, "high": float, "hook": NUMBER, "agrees": (bool, type(None)),
}  # fmt: skip
SHAPE: dict[str, Any] = {
    "schema": int,
    "job": {
        "id": TEXT, "restart": (int, type(None)), "array": TEXT, "cluster": TEXT, "user": TEXT,
        "name": TEXT, "nodes": [str], "ranks": int, "gpus": (int, type(None)), "start": TEXT,
        "end": TEXT, "state": TEXT,
    },
    "coverage": {
        "nodes_expected": [str], "nodes_seen": [str], "ranks_seen": int,
        "workers_seen": (int, type(None)), "hook": WORDS["state"], "stacks": WORDS["state"],
        "gpu": WORDS["state"], "waits": WORDS["state"], "gaps_s": NUMBER,
        "missing": [{"source": str, "reason": str}],
        "gpu_side?": {
            "waits": int, "measured": int, "measured_share": float, "waited_s": NUMBER,
            "idle_s": NUMBER, "text": str,
        },
        "log?": {
            "source": str, "steps": int, "step_s": NUMBER, "hook_steps": (int, type(None)),
            "hook_step_s": NUMBER, "agrees": (bool, type(None)), "samples_per_s": NUMBER,
            "tokens_per_s": NUMBER, "tokens_base": TEXT, "data_wait_share": NUMBER, "text": str,
            "note": TEXT,
        },
        "stack_check?": {
            "samples": int, "ranks": int, "data_wait": _STACK_SHARE, "ckpt": _STACK_SHARE,
            "states": dict, "text": str, "note": TEXT,
        },
    },
    "time": {
        "wall_s": NUMBER, "startup_s": NUMBER, "training_s": NUMBER, "steps": (int, type(None)),
        "step_p50_s": NUMBER, "step_p99_s": NUMBER, "throughput": NUMBER, "source?": str,
    },
    "idle": {
        "base": str, "storage": {"low": NUMBER, "value": NUMBER, "high": NUMBER},
        "data_storage": NUMBER, "data_cpu": NUMBER, "data_pipeline": NUMBER,
        "data_unknown": NUMBER, "checkpoint": NUMBER, "startup_share": NUMBER,
    },
    "stalls?": [{
        "cause": {"storage", "object store", "cpu", "pipeline", "unknown", "checkpoint"},
        "mount": TEXT, "fstype": TEXT, "share": float, "latency": (dict, type(None)),
        "reason": TEXT,
    }],
    "alignment?": {
        "state": {"aligned", "apart", "open", "untested"}, "reason": TEXT,
        "drops": (int, type(None)), "p": NUMBER, "false_alarm_rate": float,
        "tested_s": (int, type(None)), "explained_share": NUMBER, "text": str,
        "series": [{
            "node": str, "name": str, "mount": TEXT, "usual_ms": NUMBER, "spike_ms": NUMBER,
            "drops": int, "met": int, "by_chance": NUMBER, "lift": NUMBER,
            "looked_share": NUMBER,
        }],
    },
    "checkpoints?": {
        "count": int, "failed": int, "mount": TEXT,
        "blocking": {"median_s": float, "longest_s": float, "share": float, "base": str},
        "background": {
            "saves": int, "median_s": NUMBER, "longest_s": NUMBER, "late": int, "reason": TEXT,
        },
        "bytes": (int, type(None)),
        "writers": {
            "kind": {None, "one process", "single rank", "some ranks", "sharded"},
            "ranks_writing": (int, type(None)), "ranks": int, "bytes": (int, type(None)),
            "source": TEXT, "reason": TEXT,
            "by_rank": [{"rank": (int, type(None)), "node": str, "bytes": int}],
        },
        "rate": {
            "achieved_bytes_per_s": (int, type(None)), "possible_bytes_per_s": (int, type(None)),
            "possible_base": TEXT, "share": NUMBER, "reason": TEXT,
        },
        "interval": {
            "cost_s": NUMBER, "cost_low_s": NUMBER, "cost_high_s": NUMBER, "now_s": NUMBER,
            "now_steps": NUMBER, "saving_share": NUMBER, "saving_base": str, "mtbf_base": TEXT,
            "options": [{
                "mtbf_s": float, "young_s": float, "daly_s": float, "interval_s": float,
                "saving_share": float, "lost_share": float, "now_lost_share": float,
                "lost_base": str,
            }],
            "change_to_s": NUMBER, "reason": TEXT,
        },
        "interference": {
            "node": TEXT, "cycles": int, "wait_share_during": NUMBER, "wait_share_outside": NUMBER,
            "wait_base": str, "p": NUMBER, "disturbance": NUMBER, "reason": TEXT,
        },
        "lines": [str],
    },
    "holder?": {
        "level": {"rank", "node", "in turn"}, "rank": (int, type(None)), "node": str,
        "share": float, "steps": int, "of_steps": int, "text": str,
        "ranks": [{"rank": (int, type(None)), "node": str, "share": float, "steps": int}],
    },
    "reads?": {
        "by": {"epoch", "time"}, "readers": {"workers", "ranks", "ranks and workers"},
        "mounts": [{"mount": str, "fstype": str}],
        "slices": [{
            "epochs": (list, type(None)), "from": TEXT, "to": TEXT, "span_s": NUMBER,
            "batches": (int, type(None)), "asked_bytes": (int, type(None)),
            "storage_bytes": {"low": (int, type(None)), "high": (int, type(None))},
            "client_bytes": (int, type(None)), "majflt": (int, type(None)),
            "held": {"low": NUMBER, "high": NUMBER}, "wait_per_batch_s": NUMBER,
            "seen_share": NUMBER, "reason": TEXT, "text": str,
        }],
        "contrast": {"agrees": (bool, type(None)), "text": str}, "limits": [str],
    },
    "verdict": WORDS["verdict"],
    "verdict_reason": str,
    "findings": [{
        "rule": str, "severity": WORDS["severity"], "confidence": WORDS["confidence"],
        "title": str, "gpu_hours": NUMBER, "cost": NUMBER,
        "where": {"nodes": [str], "ranks": [int], "mounts": [str], "files": [str]},
        "evidence": [_EVIDENCE], "remedy": str, "commands": [str], "similar": [str],
        "worth?": {
            "formula": str, "base": str, "share": _RANGE, "gpus": float, "hours": float,
            "gpu_hours": _RANGE, "price_usd_h": NUMBER, "cost?": _RANGE, "text": str,
        },
    }],
    "checks": [dict],
    "overhead": {
        "cpu_s": NUMBER, "cpu_share": NUMBER, "rss_mb": NUMBER, "bytes": (int, type(None)),
        "dropped": (int, type(None)), "governor": (dict, type(None)),
    },
}  # fmt: skip
SHARES = ("data_storage", "data_cpu", "data_pipeline", "data_unknown", "checkpoint")


def problems(value: Any, shape: Any = SHAPE, path: str = "report") -> list[str]:
    """Every place where `value` is not of `shape`; keys with a question mark may be absent."""
    if isinstance(shape, dict):
        absent = {key for key in shape if key[-1] == "?" and key[:-1] not in value}
        shape = {key.rstrip("?"): each for key, each in shape.items() if key not in absent}
        if not isinstance(value, dict) or set(value) != set(shape):
            return [f"{path}: keys {value!r:.80}, not {sorted(shape)}"]
        return [one for key in shape for one in problems(value[key], shape[key], f"{path}.{key}")]
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{path}: {value!r} is no list"]
        return [
            one
            for place, item in enumerate(value)
            for one in problems(item, shape[0], f"{path}[{place}]")
        ]
    if isinstance(shape, set):
        return [] if value in shape else [f"{path}: {value!r} is not one of {sorted(shape)}"]
    return [] if isinstance(value, shape) else [f"{path}: {value!r} is not {shape}"]


def range_problems(report: dict[str, Any]) -> list[str]:
    """low <= value <= high, and every share in 0..1 (all unknown where nothing was measured)."""
    idle = report["idle"]
    low, value, high = (idle["storage"][name] for name in ("low", "value", "high"))
    if value is None:
        known = [name for name in SHARES if idle[name] is not None]
        return [f"{name} is known, storage is not" for name in known]
    found = [] if 0 <= low <= value <= high <= 1 else [f"storage {low} {value} {high}"]
    return found + [f"{name} {idle[name]}" for name in SHARES if not 0 <= idle[name] <= 1]

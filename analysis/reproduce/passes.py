"""Reruns a job's loader on one node, three ways: storage alone, the job's loader, loader alone.

    python reproduce.py [--data DIR] [--steps N] [--passes abc] [--json] [--trust] [-- SCRIPT ...]

a  the dataset's files read plainly, as many at a time as the loader had workers; no loader code
b  the job's own program, up to its first batch; then its loader with a sleep instead of the step
c  a loader with the same settings over items in memory: no file is opened

Each pass sleeps the recorded compute time between batches and gives its step rate and its wait
share (waits / (waits + sleeps), the first batch left out). recipe.json beside this file holds what
the job's store told; "MISSING" stands where it did not, to be filled in there or given here.
Python 3.8 and newer, standard library; passes b and c run in the job's program, with its torch.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from plain_passes import plain_reads, unknown  # type: ignore[import-not-found]  # beside this file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple

    Recipe = Dict[str, Any]
    Result = Dict[str, Any]

HERE = Path(__file__).resolve().parent
NAMES = {"a": "plain reads", "b": "the job's loader", "c": "loader over memory"}
ENOUGH = 0.05  # a wait share below this is no stall
SHORT_OF_CPUS = 0.2
MOST_OF_IT = 0.5  # of the loader's wait share that a pass must show to explain it


def main(argv: List[str]) -> int:
    """Run the passes and say what they mean. Exit code 0; 2 when nothing could be run."""
    recipe = json.loads((HERE / "recipe.json").read_text("utf-8"))
    options = parse(argv)
    if options.data:
        recipe["dataset"] = options.data
    if options.steps:
        recipe["steps"] = options.steps
    if options.command:
        recipe["command"] = options.command
    else:
        recipe["refused"] = why_refused(recipe, options.trust)
    if unknown(recipe["compute_s"]):
        print("recipe.json: compute_s is MISSING: fill in the seconds of a step without its waits")
        return 2
    results: Dict[str, Result] = {}
    began, short_s = time.monotonic(), cpu_short_s()
    if "a" in options.passes:
        results["a"] = guarded(plain_reads, recipe)
    if "b" in options.passes or "c" in options.passes:
        results.update(guarded_loader(recipe, options.passes))
    verdict, meaning = judge(results)
    after_s, share = cpu_short_s(), None
    if short_s is not None and after_s is not None:
        share = min(1.0, (after_s - short_s) / (time.monotonic() - began))
    if options.json:
        told = {"passes": results, "verdict": verdict, "meaning": meaning, "cpu_short_share": share}
        print(json.dumps(told, indent=2))
    else:
        show(recipe, results, verdict, meaning)
        show_cpus(share)
    return 0 if any("wait_share" in each for each in results.values()) else 2


def why_refused(recipe: Recipe, is_trusted: bool) -> str:
    """Why the recorded program is not run; empty where it may be, or where there is none."""
    if unknown(recipe["command"]):
        return ""
    look = "read its command in recipe.json, then add --trust, or give a program after --"
    owner = recipe.get("store_owner")
    if os.geteuid() == 0 and not is_trusted:
        return f"the recorded program is not run as root: run this as the job's user; or {look}"
    if owner is not None and owner != os.geteuid() and not is_trusted:
        # Whoever wrote the store chose this command.
        return f"the recorded program is not run: the store is another user's ({owner}): {look}"
    if unknown(recipe["workers"]):
        return (
            "the job's store describes no torch DataLoader, so its program would train to its end: "
            "give a program that has one after --"
        )
    return ""


def parse(argv: List[str]) -> argparse.Namespace:
    """The command line; what follows ``--`` is the job's program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", metavar="DIR", help="folder of the dataset, for pass a")
    parser.add_argument("--steps", type=int, help="batches of each pass")
    parser.add_argument("--passes", default="abc", help="which of them (default abc)")
    parser.add_argument("--json", action="store_true", help="the results as JSON")
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run the recorded program as root too, or of another user's store",
    )
    parser.add_argument("command", nargs="*", help="the job's script and its arguments, after --")
    return parser.parse_args(argv)


def guarded(run: Callable[..., Result], *arguments: Any) -> Result:
    """The pass's result, or why it could not be run."""
    try:
        return run(*arguments)
    except (OSError, ValueError, RuntimeError) as error:
        return {"reason": str(error)}


def cpu_short_s() -> Optional[float]:
    """How long some task of this node waited for a CPU, since boot (PSI); None where not told."""
    try:
        with open("/proc/pressure/cpu") as file:
            return int(file.readline().rpartition("total=")[2]) / 1e6
    except (OSError, ValueError):
        return None


def guarded_loader(recipe: Recipe, passes: str) -> Dict[str, Result]:
    """Passes b and c, in the job's own program; a reason for each where they could not be run."""
    wanted = [name for name in "bc" if name in passes]
    try:
        return loader_results(recipe, wanted)
    except (OSError, ValueError, RuntimeError) as error:
        return {name: {"reason": str(error)} for name in wanted}


def loader_results(recipe: Recipe, wanted: List[str]) -> Dict[str, Result]:
    """Run the job's program until its loader starts, see loader_passes.py."""
    if recipe.get("refused"):
        raise ValueError(recipe["refused"])
    if unknown(recipe["command"]):
        raise ValueError("the job's program is not known: give it after --, script first")
    with tempfile.TemporaryDirectory() as folder:
        told = os.path.join(folder, "result.json")
        order = {"recipe": recipe, "passes": wanted, "result": told}
        code = f"import sys; sys.path.insert(0, {str(HERE)!r}); import loader_passes; "
        command = [sys.executable, "-c", code + "loader_passes.inside(sys.argv[1])"]
        command.append(json.dumps(order))
        work = recipe.get("work_dir")
        where = work if work and os.path.isdir(work) else None
        environment = dict(os.environ, SLURM_IO_REPRODUCE="1", SLURM_IO_HOOK="0")
        done = subprocess.run(command, cwd=where, env=environment, stdout=sys.stderr, check=False)
        if not os.path.exists(told):
            raise RuntimeError(
                f"the job's program ended (exit code {done.returncode}) before a DataLoader like "
                "the recorded one was started"
            )
        found: Dict[str, Result] = json.loads(Path(told).read_text("utf-8"))
        return found


def judge(results: Dict[str, Result]) -> Tuple[str, str]:
    """One word and what it means."""
    shares = {name: each.get("wait_share") for name, each in results.items()}
    a, b, c = (shares.get(name) for name in "abc")
    if b is None:
        if a is None:
            return "not told", "no pass that decides could be run"
        word = "cannot" if a >= ENOUGH else "can"
        return "not told", (
            "without the job's loader (pass b) no cause can be told; plain reads alone "
            f"{word} keep up"
        )
    if b < ENOUGH:
        return "not reproduced", (
            "on this node the job's loader keeps up with the step: look at what one node does not "
            "have: other ranks and nodes on the same storage, the training step, the network"
        )
    if c is not None and c >= MOST_OF_IT * b:
        return "loader", (
            "a loader with these settings stalls over memory too: workers, prefetch, collation, "
            "pinning or the node's CPUs, not the files and not the dataset's code"
        )
    if a is None:
        return "not told", "the loader stalls; without plain reads (pass a) storage is not cleared"
    if a >= MOST_OF_IT * b:
        return "storage", (
            "plain reads of the same files stall as well, without any loader: the file system or "
            "the way to it, not the loader"
        )
    return "loader", (
        "plain reads keep up and the job's loader does not: what the dataset does with the data "
        "(decoding, transforms) or how it reads (many small reads, mapped files)"
    )


def show(recipe: Recipe, results: Dict[str, Result], verdict: str, meaning: str) -> None:
    """For people."""
    waited = recipe["wait_share"]
    told = "" if unknown(waited) else f"; the job itself waited {waited * 100:.1f}% of the time"
    print(f"compute time of a step: {recipe['compute_s'] * 1e3:.1f} ms (recorded){told}")
    for name in sorted(results):
        one = results[name]
        head = f"{name}  {NAMES[name]:<20}"
        if "wait_share" not in one:
            print(f"{head} not run: {one['reason']}")
            continue
        share, slow_ms = one["wait_share"] * 100, one["wait_p99_s"] * 1e3
        print(
            f"{head} {one['steps_per_s']:6.1f} steps/s, waiting {share:5.1f}% of the time, "
            f"P99 {slow_ms:.1f} ms"
        )
    print(f"\n{verdict.upper()}: {meaning}.")


def show_cpus(share: Optional[float]) -> None:
    """A node that lacks CPUs slows every loader: say so."""
    if share is not None and share >= SHORT_OF_CPUS:
        print(
            f"Tasks of this node waited for a CPU in {share * 100:.0f}% of that time: where others "
            "than these passes use them, run this again on a quiet node."
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

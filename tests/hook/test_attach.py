"""The attach folder: sitecustomize starts the hook, chains to the next one, and shadows nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.hook.scripts import ATTACH, HOOK, Job

IS_THERE = "import sys; print('slurm_io_hook' in sys.modules)"


def site_folder(job: Job, name: str, body: str) -> str:
    folder = job.folder / name
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(body)
    return str(folder)


def test_attach_folder_holds_two_names_only() -> None:
    names = {path.name for path in ATTACH.iterdir()} - {"__pycache__"}
    assert names == {"sitecustomize.py", "slurm_io_hook"}


def test_hook_is_there_before_the_program(job: Job) -> None:
    assert job.ok(IS_THERE) == "True\n"


@pytest.mark.parametrize("flag", ["-I", "-S", "-E"])
def test_interpreter_flags_leave_it_out_quietly(job: Job, flag: str) -> None:
    assert job.ok(IS_THERE, flag) == "False\n"


def test_without_a_ring_folder_nothing_is_loaded(job: Job) -> None:
    assert job.ok(IS_THERE, env={"SLURM_IO_RING_DIR": ""}) == "False\n"


def test_next_sitecustomize_runs_exactly_once(job: Job) -> None:
    site = site_folder(job, "site", "import sys; print('site'); sys.path.insert(0, '/added')")
    job.path = (str(ATTACH), site)
    stdout = job.ok(
        "import sys, sitecustomize; print(sitecustomize.__file__, 'slurm_io_hook' in sys.modules);"
        f"print('/added' in sys.path, {str(ATTACH)!r} in sys.path)"
    )
    assert stdout.splitlines() == ["site", f"{site}/sitecustomize.py True", "True True"]


def test_sitecustomize_before_ours_that_chains_reaches_us_once(job: Job) -> None:
    chaining = (
        "import os, sys\n"
        "here = os.path.dirname(__file__)\n"
        "at = sys.path.index(here); del sys.path[at]\n"
        "del sys.modules['sitecustomize']\n"
        "print('outer')\n"
        "try: import sitecustomize\n"
        "except ImportError: pass\n"
        "finally: sys.path.insert(at, here)\n"
    )
    outer = site_folder(job, "outer", chaining)
    last = site_folder(job, "last", "print('last')")
    job.path = (outer, str(ATTACH), last)
    assert job.ok(IS_THERE).splitlines() == ["outer", "last", "True"]
    job.path = (str(ATTACH), outer, last)
    assert job.ok(IS_THERE).splitlines() == ["outer", "last", "True"]


def test_our_folder_twice_on_the_path_does_not_loop(job: Job) -> None:
    link = job.folder / "link"
    link.symlink_to(ATTACH)
    last = site_folder(job, "last", "print('last')")
    job.path = (str(ATTACH), str(link), str(ATTACH), last)
    assert job.ok(IS_THERE).splitlines() == ["last", "True"]


@pytest.mark.parametrize("body", ["raise ValueError('theirs')", "import not_there_at_all"])
def test_error_of_the_next_one_is_reported_as_python_does(job: Job, body: str) -> None:
    site = site_folder(job, "site", body)
    job.path = (site,)
    alone = job.run(IS_THERE)
    job.path = (str(ATTACH), site)
    chained = job.run(IS_THERE)
    assert chained.returncode == alone.returncode == 0
    assert chained.stderr == alone.stderr != ""
    assert chained.stdout == "True\n"


def test_users_own_modules_called_like_ours_still_work(job: Job) -> None:
    for name in ("hook", "sitecustomize", "ring", "record", "attach", "api"):
        (job.folder / f"{name}.py").write_text(f"mine = {name!r}")
    stdout = job.ok(
        """
        import sitecustomize
        import hook, ring, record, attach, api
        print(sitecustomize.mine, hook.mine, ring.mine, record.mine, attach.mine, api.mine)
        """
    )
    assert stdout.split() == ["sitecustomize", "hook", "ring", "record", "attach", "api"]


def test_children_inherit_the_attachment(job: Job) -> None:
    stdout = job.ok(
        f"import subprocess, sys; print(subprocess.run([sys.executable, '-c', {IS_THERE!r}],"
        " capture_output=True, text=True).stdout, end='')"
    )
    assert stdout == "True\n"


def test_current_folder_gone_is_no_error(job: Job) -> None:
    done = job.run(
        "import sys; print('slurm_io_hook' in sys.modules)", before="mkdir d; cd d; rmdir ../d"
    )
    assert (done.returncode, done.stdout) == (0, "True\n")


def test_installed_package_and_injected_copy_are_one(job: Job) -> None:
    stdout = job.ok(
        """
        import slurm_io_hook, slurm_io.hook, sys
        from slurm_io.hook.session import SESSION
        assert slurm_io.hook.watch is slurm_io_hook.watch
        assert SESSION is sys.modules["slurm_io_hook.session"].SESSION
        list(slurm_io.hook.watch([1])); list(slurm_io_hook.watch([2]))
        print(slurm_io.hook.enabled())
        """
    )
    assert stdout == "True\n"
    assert {b.loader for b in job.ring().batches} == {1, 2}


def test_installed_package_alone_is_the_same_hook(job: Job) -> None:
    job.path = ()
    stdout = job.ok(
        """
        import slurm_io.hook, sys
        import slurm_io_hook
        list(slurm_io.hook.watch([1]))
        print(slurm_io_hook.enabled())
        """
    )
    assert stdout == "True\n"
    assert len(job.ring().batches) == 1


def test_hook_imports_nothing_of_ours_and_no_third_party(job: Job) -> None:
    stdout = job.ok(
        """
        import sys
        before = set(sys.modules)
        import slurm_io_hook
        list(slurm_io_hook.watch([1]))
        with slurm_io_hook.checkpoint("x"): pass
        tops = {name.partition(".")[0] for name in sys.modules}
        print(sorted(tops - sys.stdlib_module_names - {"__main__"}))
        """
    )
    assert "slurm_io_hook" in stdout
    assert not {"slurm_io", "torch", "psutil", "pyarrow"} & set(
        stdout.strip("[]\n").replace("'", "").split(", ")
    )


def test_no_thread_no_signal_handler(job: Job) -> None:
    stdout = job.ok(
        """
        import signal, threading
        import slurm_io_hook
        list(slurm_io_hook.watch([1]))
        handlers = {s for s in signal.valid_signals()
                    if signal.getsignal(s) not in (signal.SIG_DFL, signal.SIG_IGN, None)}
        print(threading.active_count(), handlers == {signal.SIGINT})
        """
    )
    assert stdout.split() == ["1", "True"]


def test_readable_only_for_the_user_who_needs_it(job: Job) -> None:
    old = os.umask(0)
    try:
        job.ok("import slurm_io_hook; list(slurm_io_hook.watch([1]))")
    finally:
        os.umask(old)
    assert job.ring().mode == 0o600


def test_every_file_of_the_hook_is_small_enough_to_read() -> None:
    sizes = {path.name: len(path.read_text().splitlines()) for path in Path(HOOK).rglob("*.py")}
    assert max(sizes.values()) <= 300, sizes

"""The import hook: patches what it waits for, and is invisible to everybody else.

A stand-in for safetensors, since torch takes seconds to import.
"""

from __future__ import annotations

import pytest

from tests.hook.scripts import Job

FAKE = """
import os
def save_file(tensors, filename, metadata=None):
    "Doc of the original."
    with open(filename, "wb") as file: file.write(tensors)
def load_file(filename, device="cpu"):
    with open(filename, "rb") as file: return file.read()
if os.environ.get("FAIL_ONCE") and not os.path.exists("failed"):
    open("failed", "w").close()
    raise ImportError("not this time")
"""


@pytest.fixture
def fake_safetensors(job: Job) -> Job:
    package = job.folder / "safetensors"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "torch.py").write_text(FAKE)
    return job


def test_safetensors_are_timed_with_path_and_bytes(fake_safetensors: Job) -> None:
    fake_safetensors.ok(
        """
        from safetensors.torch import save_file, load_file
        save_file(b"12345", "a.safetensors")
        assert load_file(filename="a.safetensors") == b"12345"
        """
    )
    ring = fake_safetensors.ring()
    path = str(fake_safetensors.folder / "a.safetensors")
    (save,), (load,) = ring.of_kind("ckpt_save"), ring.of_kind("load")
    assert (save.bytes, save.text) == (load.bytes, load.text) == (5, {"path": path})


def test_failed_save_raises_the_same_error(fake_safetensors: Job) -> None:
    fake_safetensors.ok(
        """
        from safetensors.torch import save_file
        try: save_file(b"", "no/such/folder/x")
        except FileNotFoundError as error: assert error.__context__ is None
        else: raise SystemExit("not raised")
        try: save_file()
        except TypeError as error: assert "save_file() missing" in str(error), error
        """
    )
    saves = fake_safetensors.ring().of_kind("ckpt_save")
    assert [save.text["error"] for save in saves] == ["FileNotFoundError", "TypeError"]
    assert all(save.failed for save in saves)


def test_module_keeps_its_loader_source_names_and_signatures(fake_safetensors: Job) -> None:
    fake_safetensors.ok(
        """
        import importlib.machinery, importlib.util, inspect, pickle
        spec = importlib.util.find_spec("safetensors.torch")
        assert spec.loader.get_source("safetensors.torch").lstrip().startswith("import os")
        import safetensors.torch as module
        loader = module.__loader__
        assert type(loader) is importlib.machinery.SourceFileLoader
        assert module.__spec__.loader is loader
        assert inspect.getsource(module).lstrip().startswith("import os")
        assert list(inspect.signature(module.save_file).parameters) == [
            "tensors", "filename", "metadata"]
        assert module.save_file.__doc__ == "Doc of the original."
        assert pickle.loads(pickle.dumps(module.save_file)) is module.save_file
        """
    )


def test_reload_is_patched_again_and_once(fake_safetensors: Job) -> None:
    fake_safetensors.ok(
        """
        import importlib
        import safetensors.torch as module
        module = importlib.reload(module)
        module.save_file(b"1", "a")
        """
    )
    assert len(fake_safetensors.ring().of_kind("ckpt_save")) == 1


def test_import_that_fails_once_is_patched_when_it_succeeds(fake_safetensors: Job) -> None:
    fake_safetensors.ok(
        """
        try: import safetensors.torch
        except ImportError as error: assert str(error) == "not this time"
        import safetensors.torch
        safetensors.torch.save_file(b"1", "a")
        """,
        env={"FAIL_ONCE": "1"},
    )
    assert len(fake_safetensors.ring().of_kind("ckpt_save")) == 1


def test_module_imported_before_the_hook_is_patched_too(fake_safetensors: Job) -> None:
    fake_safetensors.path = ()
    fake_safetensors.ok(
        """
        import safetensors.torch
        import slurm_io.hook
        safetensors.torch.save_file(b"1", "a")
        """
    )
    assert len(fake_safetensors.ring().of_kind("ckpt_save")) == 1


def test_another_import_hook_in_front_that_asks_from_the_top_works(fake_safetensors: Job) -> None:
    fake_safetensors.ok(
        """
        import importlib.util, sys
        class Outer:
            busy = False
            def find_spec(self, name, path=None, target=None):
                if Outer.busy or name != "safetensors.torch": return None
                Outer.busy = True
                try: return importlib.util.find_spec(name)
                finally: Outer.busy = False
        class Inner(Outer):
            pass
        sys.meta_path.insert(0, Outer())
        sys.meta_path.append(Inner())
        import safetensors.torch
        safetensors.torch.save_file(b"1", "a")
        """
    )
    assert len(fake_safetensors.ring().of_kind("ckpt_save")) == 1


def test_library_without_the_names_we_patch_is_left_alone(job: Job) -> None:
    (job.folder / "safetensors").mkdir()
    (job.folder / "safetensors/torch.py").write_text("value = 1")
    assert job.ok("import safetensors.torch; print(safetensors.torch.value)") == "1\n"


def test_absent_library_stays_absent(job: Job) -> None:
    (job.folder / "torchdata").mkdir()
    (job.folder / "torchdata/__init__.py").touch()
    stdout = job.ok(
        """
        try: import torchdata.nodes.loader
        except ModuleNotFoundError as error: print(error.name)
        """
    )
    assert stdout == "torchdata.nodes\n"

"""Finding and loading the library: no user's file is ever loaded into root's process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_io.errors import HostError
from slurm_io.gpus.model import Mark
from slurm_io.gpus.nvml import library as module
from slurm_io.gpus.nvml.errors import FUNCTION_NOT_FOUND, NvmlError, reason_of
from slurm_io.gpus.nvml.functions import FUNCTIONS, name_of, number_of
from slurm_io.gpus.nvml.library import PATHS, SONAME, Library, find_library
from tests.labs.gpu.stand_in import StandIn


def test_the_places_are_absolute_and_of_the_system() -> None:
    assert all(path.startswith(("/usr/", "/run/", "/opt/")) for path in PATHS)
    assert all(path.endswith(f"/{SONAME}") for path in PATHS)


def test_the_environment_does_not_lead_root_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = StandIn(tmp_path)
    for name in ("LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "NVML_LIBRARY_PATH", "HOME"):
        monkeypatch.setenv(name, str(lab.library.parent))
    monkeypatch.chdir(lab.library.parent)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(module, "PATHS", (str(tmp_path / "nowhere" / SONAME),))
    with pytest.raises(HostError, match="there is no libnvidia-ml.so.1 in any of its usual places"):
        find_library()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
class TestRootTakesOnlyWhatIsRoots:
    def test_a_file_of_roots_is_taken_and_links_are_resolved(self, tmp_path: Path) -> None:
        lab = StandIn(tmp_path)
        link = tmp_path / "link.so.1"
        link.symlink_to(lab.library)
        assert find_library((str(link),)) == str(lab.library.resolve())

    def test_a_users_file_is_not(self, tmp_path: Path) -> None:
        lab = StandIn(tmp_path)
        os.chown(lab.library, 1000, 1000)
        with pytest.raises(HostError, match="must be root's"):
            find_library((str(lab.library),))

    def test_nor_one_that_others_can_write(self, tmp_path: Path) -> None:
        lab = StandIn(tmp_path)
        lab.library.chmod(0o775)
        with pytest.raises(HostError, match="closed to others"):
            find_library((str(lab.library),))

    def test_nor_one_in_a_folder_of_a_users(self, tmp_path: Path) -> None:
        lab = StandIn(tmp_path)
        os.chown(lab.library.parent, 1000, 1000)
        with pytest.raises(HostError, match="belongs to uid 1000"):
            find_library((str(lab.library),))

    def test_the_next_place_is_tried_after_one_that_was_refused(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        bad, good = StandIn(tmp_path / "a"), StandIn(tmp_path / "b")
        bad.library.chmod(0o777)
        assert find_library((str(bad.library), str(good.library))) == str(good.library)


def test_a_users_own_sampler_may_leave_the_search_to_the_loader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert find_library((str(tmp_path / "nowhere"),)) == SONAME
    lab = StandIn(tmp_path)
    assert find_library((str(lab.library),)) == str(lab.library)


def test_a_file_that_is_no_library_is_an_error_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / SONAME
    path.write_text("no ELF")
    with pytest.raises(HostError, match=f"cannot load {path}"):
        Library(str(path), Mark())


def test_a_function_the_library_does_not_have_fails_when_called(tmp_path: Path) -> None:
    lab = StandIn(tmp_path, without=("nvmlDeviceGetIndex",))
    library = Library(str(lab.library), Mark())
    library.function("nvmlInit_v2")()
    with pytest.raises(NvmlError) as caught:
        library.function("nvmlDeviceGetIndex")(None)
    assert caught.value.code == FUNCTION_NOT_FOUND
    assert "this driver is too old" in str(caught.value)


def test_the_first_name_the_library_has_is_taken(tmp_path: Path) -> None:
    lab = StandIn(tmp_path, without=("nvmlDeviceGetCurrentClocksEventReasons",))
    mark = Mark()
    library = Library(str(lab.library), mark)
    names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    with pytest.raises(NvmlError):
        library.function(*names)(None, None)  # not initialised, but called
    assert name_of(mark.shared[1]) == names[1]


def test_the_mark_names_every_function() -> None:
    assert len(set(FUNCTIONS)) == len(FUNCTIONS) < 255
    assert [name_of(number_of(name)) for name in FUNCTIONS] == list(FUNCTIONS)


def test_a_mark_that_nobody_has_made_yet_names_no_gpu() -> None:
    assert Mark.read(bytearray(2)) == (None, 0)
    mark = Mark()
    assert Mark.read(mark.shared) == (None, 0) and name_of(0) == "a file of /sys"
    for gpu in (0, 7, 253):
        mark.set(gpu)
        assert Mark.read(mark.shared) == (gpu, 0)
    mark.set(None)
    assert Mark.read(mark.shared) == (None, 0)


@pytest.mark.parametrize("code", [1, 2, 3, 4, 6, 7, 9, 10, 11, 12, 13, 15, 16, 17, 18, 25, 26, 999])
def test_each_code_has_one_clear_reason(code: int) -> None:
    error = NvmlError(code, "nvmlX")
    assert str(error) == f"{reason_of(code)} (nvmlX: NVML error {code})"
    assert "\n" not in str(error) and "does not know" not in str(error)


def test_a_code_of_tomorrow_has_a_reason_too() -> None:
    assert "does not know" in str(NvmlError(77, "nvmlX"))


def test_which_codes_take_the_gpu_and_which_the_driver() -> None:
    of_gpu = {code for code in range(1000) if NvmlError(code, "").gpu_is_lost}
    of_all = {code for code in range(1000) if NvmlError(code, "").session_is_lost}
    assert of_gpu == {15, 16}
    assert of_all == {1, 9, 12, 18}

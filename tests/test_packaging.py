"""Every package of the tree reaches the wheel, and nothing generic reaches site-packages."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAPPED = ("prolog", "epilog", "analysis")

pytestmark = pytest.mark.skipif(
    not (ROOT / "pyproject.toml").exists(), reason="not run from a checkout"
)


def project() -> dict[str, object]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


def packages_in_tree() -> set[str]:
    found = set()
    for top in ("slurm_io", *MAPPED):
        for init in (ROOT / top).rglob("__init__.py"):
            parts = init.parent.relative_to(ROOT).parts
            if any((ROOT.joinpath(*parts[:n])).is_symlink() for n in range(1, len(parts) + 1)):
                continue
            prefix = ("slurm_io",) if top in MAPPED else ()
            found.add(".".join(prefix + parts))
    # What goes on PYTHONPATH of the job is data of the hook, not a package of ours.
    return {name for name in found if not name.startswith("slurm_io.hook.attach")}


def test_every_package_is_listed() -> None:
    listed = set(project()["tool"]["setuptools"]["packages"])  # type: ignore[index]
    assert listed == packages_in_tree()


@pytest.mark.parametrize("name", MAPPED)
def test_link_in_the_package_shows_the_top_level_folder(name: str) -> None:
    link = ROOT / "slurm_io" / name
    assert link.resolve() == (ROOT / name).resolve()


def test_fewer_than_ten_mandatory_dependencies_each_with_its_reason() -> None:
    dependencies = project()["project"]["dependencies"]  # type: ignore[index]
    assert len(dependencies) < 10
    text = (ROOT / "pyproject.toml").read_text()
    for dependency in dependencies:
        line = next(line for line in text.splitlines() if f'"{dependency}"' in line)
        assert "#" in line, f"{dependency}: no reason beside it"


def test_wheel_holds_every_module_and_the_entry_scripts(tmp_path: Path) -> None:
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--wheel-dir",
            str(tmp_path),
            str(ROOT),
        ],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in names} == {"slurm_io"}
    for module in _modules():
        assert module in names, f"{module} is not in the wheel"


def _modules() -> list[str]:
    found = []
    for top in ("slurm_io", *MAPPED):
        prefix = "slurm_io/" if top in MAPPED else ""
        for path in (ROOT / top).rglob("*"):
            relative = path.relative_to(ROOT)
            if path.suffix not in {".py", ".sh", ".toml"} or "__pycache__" in relative.parts:
                continue
            if any(part in MAPPED for part in relative.parts[1:2]) and top == "slurm_io":
                continue
            found.append(f"{prefix}{relative}")
    return found

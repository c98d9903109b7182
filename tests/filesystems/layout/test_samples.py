"""Every recorded layout gives its documented value; a sample that nobody asserts about fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slurm_io.filesystems.layout import patterns
from slurm_io.filesystems.layout.getstripe import parse_getdirstripe, parse_getstripe
from slurm_io.filesystems.layout.lmv import parse_lmv
from slurm_io.filesystems.layout.lov import parse_lov
from slurm_io.filesystems.layout.model import (
    Component,
    DirectoryDefault,
    Layout,
    LayoutError,
    MdtLayout,
    distinct_osts,
    effective_width,
)
from slurm_io.filesystems.layout.osts import parse_lfs_df

FIXTURES = Path(__file__).parents[2] / "fixtures" / "layout"
BINARY = sorted(path.name for path in FIXTURES.glob("*.bin"))
MIB = 1 << 20
R, M, O = 1, 0x100, 0x201  # noqa: E741 - raid0, mdt, raid0 + overstriped
# path, kind, template, mirrors, generation, components: (id, flags, start, end, pattern, count,
# stripe size, pool, osts)
TEXTS: dict[str, list[tuple[Any, ...]]] = {
    "getstripe_compressed_2.16.txt": [
        ("my_file", "composite", False, 1, 1, [(1, 0x110, 0, None, 0x801, 1, 4 * MIB, None, (0,))])
    ],
    "getstripe_d_one_line_forms.txt": [
        (None, "plain", True, 1, None, [(None, 0, 0, None, R, 1, MIB, "original", ())]),
        (None, "plain", True, 1, None, [(None, 0, 0, None, O, 8, MIB, None, ())]),
        (None, "plain", True, 1, None, [(None, 0, 0, None, 0, 2, 4 * MIB, None, ())]),
        (None, "plain", True, 1, None, [(None, 0, 0, None, None, 1, MIB, None, ())]),
        (None, "plain", True, 1, None, [(None, 0, 0, None, None, 1, MIB, None, ())]),
    ],
    "getstripe_dir_default_old.txt": [
        ("/mnt/lustre", "plain", True, 1, None, [(None, 0, 0, None, None, 1, MIB, None, ())])
    ],
    "getstripe_dom_after.txt": [
        ("/mnt/lustre/domfile", "composite", False, 1, 3, [
            (1, 0x10, 0, MIB, M, 0, MIB, None, ()),
            (2, 0x10, MIB, None, R, 2, 4 * MIB, None, (0, 1)),
        ])
    ],
    "getstripe_dom_before.txt": [
        ("/mnt/lustre/domfile", "composite", False, 1, 2, [
            (1, 0x10, 0, MIB, M, 0, MIB, None, ()),
            (2, 0, MIB, None, R, -1, 4 * MIB, None, ()),
        ])
    ],
    "getstripe_dom_dir_and_files.txt": [
        (None, "composite", True, 1, 0, [
            (None, 0, 0, MIB, M, 0, MIB, None, ()),
            (None, 0, MIB, None, R, 1, MIB, None, ()),
        ])
    ],
    "getstripe_dom_dir_template_2.15.txt": [
        ("testdir1", "composite", True, 1, 0, [
            (None, 0, 0, 65536, M, 0, 65536, None, ()),
            (None, 0, 65536, None, R, -1, MIB, None, ()),
        ])
    ],
    "getstripe_ec_parity_2.17.txt": [
        ("/mnt/l/userA/file", "composite", False, 2, 2, [
            (65537, 0x10, 0, None, R, 6, MIB, None, (0, 1, 2, 3, 10, 11)),
            (131074, 0x90, 0, None, 5, 2, MIB, None, (3, 0)),
        ])
    ],
    "getstripe_flr_three_mirrors_pfl.txt": [
        ("/mnt/testfs/file2", "composite", False, 3, 6, [
            (65537, 0x16, 0, 4 * MIB, R, 1, MIB, "flash", (1,)),
            (65538, 0x06, 4 * MIB, None, R, 2, MIB, "flash", ()),
            (131075, 0x16, 0, 16 * MIB, R, 4, 8 * MIB, "archive", (4, 5, 6, 7)),
            (131076, 0, 16 * MIB, None, R, 6, 8 * MIB, "archive", ()),
            (196613, 0x10, 0, 32 * MIB, R, 1, 8 * MIB, None, (0,)),
            (196614, 0, 32 * MIB, None, R, -1, 8 * MIB, None, ()),
        ])
    ],
    "getstripe_flr_two_mirrors.txt": [
        ("/mnt/testfs/file1", "composite", False, 2, 2, [
            (65537, 0x10, 0, None, R, 2, 4 * MIB, "flash", (1, 0)),
            (131074, 0x10, 0, None, R, 6, 4 * MIB, "archive", (3, 4, 5, 6, 7, 2)),
        ])
    ],
    "getstripe_overstriped_pool.txt": [
        (None, "plain", False, 1, 0, [(None, 0x10, 0, None, O, 8, MIB, "original", (10, 11) * 4)])
    ],
    "getstripe_pfl_all_instantiated.txt": [
        ("/mnt/testfs/create_comp", "composite", False, 1, 5, [
            (1, 0x10, 0, 4 * MIB, R, 1, MIB, None, (0,)),
            (2, 0x10, 4 * MIB, 64 * MIB, R, 4, MIB, None, (1, 2, 3, 4)),
            (3, 0x10, 64 * MIB, None, R, 8, MIB, None, (4, 5, 6, 7, 0, 1, 2, 3)),
        ])
    ],
    "getstripe_pfl_dir_template.txt": [
        ("/mnt/testfs/pfldir", "composite", True, 1, 0, [
            (None, 0, 0, 256 * MIB, None, 1, MIB, None, ()),
            (None, 0, 256 * MIB, 16384 * MIB, None, 4, MIB, None, ()),
            (None, 0, 16384 * MIB, None, None, -1, 4 * MIB, None, ()),
        ])
    ],
    "getstripe_pfl_first_component_only.txt": [
        ("/mnt/testfs/create_comp", "composite", False, 1, 3, [
            (1, 0x10, 0, 4 * MIB, R, 1, MIB, None, (0,)),
            (2, 0, 4 * MIB, 64 * MIB, R, 4, MIB, None, ()),
            (3, 0, 64 * MIB, None, R, -1, MIB, None, ()),
        ])
    ],
    "getstripe_plain_numeric_pattern.txt": [
        ("/mnt/lustre/4mb_file", "plain", False, 1, 0,
         [(None, 0x10, 0, None, R, 1, 4 * MIB, None, (1,))])
    ],
    "getstripe_q_only_objects.txt": [
        ("/mnt/lustre/full_stripe", "plain", False, 1, None,
         [(None, 0x10, 0, None, None, 6, None, None, (0, 1, 2, 3, 4, 5))])
    ],
    "getstripe_sel_extension.txt": [
        ("/mnt/lustre/file", "composite", False, 1, 4, [
            (1, 0x10, 0, 64 * MIB, R, 1, MIB, None, (0,)),
            (2, 0x40, 64 * MIB, 1024 * MIB, R, 0, None, None, ()),
            (3, 0, 1024 * MIB, 1024 * MIB, R, 1, MIB, None, ()),
            (4, 0x40, 1024 * MIB, None, R, 0, None, None, ()),
        ])
    ],
    "getstripe_v_two_components.txt": [
        (None, "composite", False, 1, 2, [
            (1, 0x10, 0, MIB, R, 1, MIB, None, (0,)),
            (2, 0x10, MIB, None, R, 2, MIB, None, (1, 0)),
        ])
    ],
    "getstripe_yaml_plain.txt": [
        ("/mnt/testfs/norm_to_comp", "plain", False, 1, 0,
         [(None, 0x10, 0, None, R, 1, 131072, None, (7,))])
    ],
    "getstripe_yaml_plain_2.txt": [
        ("/mnt/testfs/3comp_to_norm", "plain", False, 1, 7,
         [(None, 0x10, 0, None, R, 2, 2 * MIB, None, (4, 5))])
    ],
}  # fmt: skip
ELSEWHERE = {"getdirstripe_forms.txt", "getstripe_fsx_default_pfl.txt", "lfs_df_manual.txt"}


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


def told(part: Component) -> tuple[Any, ...]:
    return (part.component_id, part.flags, part.start_bytes, part.end_bytes, part.pattern,
            part.stripe_count, part.stripe_size_bytes, part.pool, part.osts)  # fmt: skip


def layout_in(name: str) -> Layout:
    (listing,) = parse_getstripe(text(name))
    return listing.layout


def test_every_sample_is_asserted_about() -> None:
    assert {path.name for path in FIXTURES.glob("*.txt")} == set(TEXTS) | ELSEWHERE
    assert len(BINARY) == len(list(FIXTURES.glob("*.json"))) == 15


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_text_form(name: str) -> None:
    found = [
        (each.path, each.layout.kind, each.layout.is_template, each.layout.mirror_count,
         each.layout.layout_gen, [told(part) for part in each.layout.components])
        for each in parse_getstripe(text(name))
    ]  # fmt: skip
    assert found == TEXTS[name]
    assert all(
        each.layout.incomplete is None and not each.layout.remarks
        for each in parse_getstripe(text(name))
    )


def test_output_cut_in_the_middle_is_incomplete() -> None:
    layout = layout_in("getstripe_fsx_default_pfl.txt")
    assert layout.incomplete == "2 of 4 components"


def test_extension_sizes_of_text() -> None:
    parts = layout_in("getstripe_sel_extension.txt").components
    assert [part.extension_size_bytes for part in parts] == [None, 64 * MIB, None, 256 * MIB]


def test_verbose_text_and_bytes_of_one_file_agree() -> None:
    from_text = layout_in("getstripe_v_two_components.txt")
    from_bytes = parse_lov((FIXTURES / "xattr_comp_v1_two_components.bin").read_bytes())
    assert [told(part) for part in from_text.components] == [
        told(part) for part in from_bytes.components
    ]
    assert from_text.layout_gen == from_bytes.layout_gen


def test_directory_striping_over_metadata_servers() -> None:
    assert parse_getdirstripe(text("getdirstripe_forms.txt")) == (
        MdtLayout(0, 0, "none"),
        MdtLayout(0, 0, "none", 3),
        MdtLayout(0, 1, "none", 3),
    )


def test_osts_of_lfs_df() -> None:
    osts = parse_lfs_df(text("lfs_df_manual.txt"))
    assert osts is not None
    assert osts.active == {0, 1, 2} and osts.used_share == {0: 0.59, 1: 0.59, 2: 0.57}


@pytest.mark.parametrize("name", BINARY)
def test_binary_form(name: str) -> None:
    data = (FIXTURES / name).read_bytes()
    want = json.loads((FIXTURES / name).with_suffix(".json").read_text())
    is_directory = want.get("kind") == "dir_default"
    if "error" in want:
        with pytest.raises(LayoutError) as caught:
            parse_lov(data)
        assert str(caught.value).startswith(want["error"])
    elif want["kind"] == "lmv_default":
        mdt = parse_lmv(data)
        assert (mdt.stripe_count, mdt.stripe_offset) == (
            want["stripe_count"],
            want["stripe_offset"],
        )
        assert (mdt.hash_name, mdt.max_inherit) == (want["hash"], want["max_inherit"])
    else:
        _check(parse_lov(data, is_directory=is_directory), want, data)


def _check(layout: Layout, want: dict[str, Any], data: bytes) -> None:
    """Compare with all keys of the .json; a key that is not known here fails."""
    known: dict[str, Any] = {
        "kind": "dir_default" if layout.is_template else layout.kind,
        "magic": f"0x{int.from_bytes(data[:4], 'little'):08X}",
        "size": len(data),
        "bytes": len(data),
        "layout_gen": layout.layout_gen,
        "entries": len(layout.components),
        "mirror_count": layout.mirror_count,
        "state": layout.mirror_state,
    }
    first = layout.components[0]
    if layout.is_template and DirectoryDefault(layout).is_file_system_default:
        known["means"] = "use the file system default"
    if first.foreign is not None:
        found = first.foreign
        known |= {"type": found.type, "type_name": found.type_name, "flags": found.flags}
        known["value"] = found.value.decode()
    known |= _part(first)
    for key, value in want.items():
        if key != "components":
            assert known[key] == value, key
    for part, wanted in zip(layout.components, want.get("components", []), strict=False):
        assert {key: _part(part)[key] for key in wanted} == wanted
    if "components" in want:
        assert len(want["components"]) == len(layout.components)


def _part(part: Component) -> dict[str, Any]:
    return {
        "id": part.component_id,
        "init": part.is_instantiated,
        "stale": part.is_stale,
        "extension": part.is_extension,
        "extension_size": part.extension_size_bytes,
        "mirror_id": part.mirror_id,
        "start": part.start_bytes,
        "end": "EOF" if part.end_bytes is None else part.end_bytes,
        "pattern": patterns.pattern_name(part.pattern),
        "stripe_count": part.stripe_count,
        "stripe_size": part.stripe_size_bytes,
        "stripe_offset": part.stripe_offset,
        "osts": list(part.osts),
        "distinct_osts": len(distinct_osts([part])),
        "released": part.is_released,
        "pool": part.pool,
    }


def test_effective_width_of_the_traps() -> None:
    width = {
        name: effective_width(layout_in(name), 10**12) for name in TEXTS if "d_one" not in name
    }
    assert width["getstripe_overstriped_pool.txt"] == 2, "OSTs, not stripes"
    assert width["getstripe_ec_parity_2.17.txt"] == 6, "parity is no data"
    assert width["getstripe_flr_two_mirrors.txt"] == 2, "mirrors are not added"
    assert width["getstripe_flr_three_mirrors_pfl.txt"] == 1, (
        "the preferred mirror, as far as it is"
    )
    assert width["getstripe_pfl_first_component_only.txt"] == 1, "no objects yet"
    assert width["getstripe_pfl_all_instantiated.txt"] == 8
    assert effective_width(layout_in("getstripe_pfl_all_instantiated.txt"), 64 * MIB) == 5
    assert effective_width(layout_in("getstripe_dom_after.txt"), MIB) == 0, "all on the MDT"

"""`lfs getstripe` of files whose names were chosen to be taken for its output."""

from __future__ import annotations

import pytest

from slurm_io.filesystems.layout.getstripe import parse_getstripe
from slurm_io.filesystems.layout.model import LayoutError

TRUE = """{path}
lmm_stripe_count:  1
lmm_stripe_size:   1048576
lmm_pattern:       raid0
lmm_layout_gen:    0
lmm_stripe_offset: 3
\tobdidx\t\t objid\t\t objid\t\t group
\t     3\t          2\t          0x2\t             0

"""
FALSE = TRUE.format(path="").replace("1\n", "8\n", 1).replace("3", "9")
NAMES = [
    "/d/f",
    "/d/lmm_stripe_count: 8",
    "/d/\nlmm_stripe_count:  8\nlmm_stripe_offset: 9",
    "/d/\n  lcm_layout_gen: 1\n  lcm_entry_count: 7\n    lcme_id: 1",
    "/d/\u2028lmm_stripe_count: 8\u2029\x85\x0b\x0c\x1clmm_stripe_offset: 9",
    "/d/\robdidx objid objid group\r9 9 0x9 9",
    "/d/\n\t obdidx\t objid\t objid\t group\n\t 9\t 9\t 0x9\t 0",
    "/d/- 0: { l_ost_idx: 9, l_fid: [0x1:0x2:0x0] }",
    "/d/\n      - 0: { l_ost_idx: 9, l_fid: [0x1:0x2:0x0] }",
    "/d/\\\nlmm_stripe_count: 8",
    "/d/stripe_count: 8 stripe_size: 65536 pattern: raid0 stripe_offset: -1",
    "/d/ ",
    "/d/\n",
    "/d/" + FALSE,
    "/d/x\n" + FALSE + "/d/x",
    "/d/�\n�",
]


@pytest.mark.parametrize("path", NAMES)
def test_name_of_the_file_asked_for_is_no_part_of_its_layout(path: str) -> None:
    (found,) = parse_getstripe(TRUE.format(path=path), path)
    assert found.path == path
    assert found.layout.incomplete is None and not found.layout.is_template
    assert [part.osts for part in found.layout.components] == [(3,)]
    assert found.layout.components[0].stripe_count == 1


@pytest.mark.parametrize("path", NAMES)
def test_output_about_another_file_is_refused_or_no_layout(path: str) -> None:
    """Never the layout that stands in a name: as when a path was printed otherwise than given."""
    try:
        found = parse_getstripe(TRUE.format(path=path), "/asked/for")
    except LayoutError as error:
        assert str(error).isprintable()
        return
    assert all(each.layout.incomplete is not None for each in found[:1]), found


def test_separators_that_are_no_line_ends_split_no_line() -> None:
    text = TRUE.format(path="/d/a\u2028lmm_stripe_count: 8\u2028b")
    (found,) = parse_getstripe(text)
    assert found.path == "/d/a\u2028lmm_stripe_count: 8\u2028b"
    assert found.layout.components[0].osts == (3,)


def test_numbers_that_are_none_are_refused_in_one_printable_line() -> None:
    for word in ("nine", "9" * 5000, "-99999999999", "\x1b[2J", "0x", "٣"):
        text = TRUE.format(path="/f").replace("count:  1", f"count:  {word}")
        with pytest.raises(LayoutError) as caught:
            layouts = parse_getstripe(text, "/f")
            assert layouts[0].layout.incomplete is not None
            raise LayoutError("incomplete")
        assert str(caught.value).isprintable() and len(str(caught.value)) < 200

"""The two Arrow views of a table say the same; the page in docs/ is fresh."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from slurm_io.store import schema_page
from slurm_io.store.arrow_schema import pyarrow_schema
from slurm_io.store.nanoarrow_schema import nanoarrow_schema
from slurm_io.store.schema import TABLES


@pytest.mark.parametrize("name", TABLES)
def test_nanoarrow_and_pyarrow_agree(name: str) -> None:
    ours = pa.schema(nanoarrow_schema(TABLES[name]))
    assert ours.equals(pyarrow_schema(TABLES[name]), check_metadata=True)


@pytest.mark.parametrize("name", TABLES)
def test_clocks_head_every_table_and_keys_exist(name: str) -> None:
    columns = TABLES[name].column_names()
    assert columns[:2] == ("ts_ns", "mono_ns")
    assert set(TABLES[name].key) <= set(columns)
    assert len(set(columns)) == len(columns)


def test_page_is_fresh() -> None:
    if not schema_page.DEFAULT_PAGE.parent.is_dir():
        pytest.skip("not a checkout")
    assert schema_page.main(["--check"]) == 0


def test_check_tells_a_stale_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "schema.md"
    assert schema_page.main([str(page)]) == 0
    assert schema_page.main(["--check", str(page)]) == 0
    page.write_text(page.read_text() + "edited by hand\n")
    assert schema_page.main(["--check", str(page)]) == 1
    assert "stale" in capsys.readouterr().err

"""Stand-ins for lfs, weka and mmlsattr: they print what the real ones printed, for the files they
are asked for. Which files are away is told by the files' names."""

from __future__ import annotations

import sys
from pathlib import Path

_HEAD = (
    f"#!{sys.executable} -ISs\nimport os, sys\nfiles = [a for a in sys.argv[1:] if a[0] == '/']\n"
)
_LFS = (
    _HEAD
    + """
assert sys.argv[1] == "hsm_state"
for each in files:
    name = os.path.basename(each)
    away = "released" in name
    print(f"{each}: (0x0000000d) released exists archived, archive_id:1" if away else
          f"{each}: (0x00000009) exists archived, archive_id:1")
"""
)
_WEKA = (
    _HEAD
    + """
assert sys.argv[1:5] == ["fs", "tier", "location", "--raw-units"] and os.environ["HOME"]
print("PATH  FILE TYPE  FILE SIZE  CAPACITY IN SSD (WRITE-CACHE)  CAPACITY IN SSD (READ-CACHE)  "
      "CAPACITY IN OBJECT STORAGE  CAPACITY IN REMOTE STORAGE")
for each in files:
    name = os.path.basename(each)
    size = os.stat(each).st_size
    here = 0 if "released" in name else size // 4 if "partial" in name else size
    print(f"{each}  regular    {size}   0           {here}     {size}        0")
"""
)
_MMLSATTR = (
    _HEAD
    + """
assert sys.argv[1] == "-L"
for each in files:
    name = os.path.basename(each)
    print(f"file name:            {each}\\nmetadata replication: 1 max 2\\nflags:")
    print("Misc attributes:      ARCHIVE" + (" OFFLINE" if "released" in name else ""))
    print("Encrypted:            no\\n")
"""
)
_TEXTS = {"lfs": _LFS, "weka": _WEKA, "mmlsattr": _MMLSATTR}


def install(folder: Path, name: str, text: str | None = None) -> Path:
    """Put a stand-in (or a script `text` under the tool's name) into `folder`."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text if text is not None else _TEXTS[name])
    path.chmod(0o755)
    return path

"""Whose journal a stage goes on with: this version's, of this boot.

Files are entered when they were read back from the medium. Whether their names and sizes are in
the file system's own journal by then is not known before the last flush: after a power cut, files
of the right size are hashed again (and not copied again).
"""

from __future__ import annotations

from slurm_io.staging.verify.identity import Roots, boot_id


def journal_key(content_id: str, roots: Roots) -> str:
    """What the journal is bound to beside the folder."""
    return f"{content_id}+{boot_id(roots).replace('-', '')[:12]}"

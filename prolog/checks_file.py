"""checks.json: what the prolog was asked and what it found, for the report."""

from __future__ import annotations

import json

from slurm_io.prolog.request import Request
from slurm_io.slurm.environment import HookJob


def checks_json(job: HookJob, request: Request) -> bytes:
    """``{schema, node, request, complaints, checks}``; `checks` is empty until there are any."""
    content = {
        "schema": 1,
        "node": job.node,
        "request": request.spec.to_dict(),
        "complaints": list(request.complaints),
        "checks": [],
    }
    return json.dumps(content, ensure_ascii=True).encode()

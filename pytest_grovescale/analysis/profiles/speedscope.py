"""Profiles for https://speedscope.app: its file format, a sampled profile.

Format: github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources and src/lib/file-format-spec.ts.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .stacks import OTHER_STACKS, Stacks

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(stacks: Stacks, name: str) -> bytes:
    """Return a profile as speedscope JSON: one sample for each different stack, weighted.

    ``</`` is escaped, so that the text can also stand inside a page's ``<script>``.
    """
    samples: list[Any] = list(stacks.counts)
    weights = list(stacks.counts.values())
    frames: list[dict[str, str]] = [
        {"name": function.full, "file": function.module} if function.module else {"name": function.full}
        for function in stacks.functions
    ]
    if stacks.rest:
        samples.append((len(frames),))
        weights.append(stacks.rest)
        frames.append({"name": OTHER_STACKS.full})
    content = {
        "$schema": SCHEMA,
        "exporter": "pytest-grovescale",
        "name": name,
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": [
            {
                "type": "sampled",
                "name": name,
                "unit": "bytes" if stacks.unit == "bytes" else "none",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": samples,
                "weights": weights,
            }
        ],
    }
    return msgspec.json.encode(content).replace(b"</", b"<\\/") + b"\n"

"""Removes a run's objects from its cluster: ``python -m pytest_grovescale.cluster.existing.remove DIRECTORY``.

Runs at the end of a cluster and, after a kill, from the next start or ``grovescale down``. Exit code 0: all removed.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from ...kube.client import Client
from ...kube.errors import ApiError, ServerUnavailable
from .. import ownership, state
from .leavings import Removal, remove

TIMEOUT_S = 600.0
"""Limit for the whole removal, s; steps that can hang have limits of their own."""

_ANSWER_S = 30.0
_ANSWER_AGAIN_S = 2.0
"""Time to wait for the API server if an earlier call got no answer, s; otherwise `_ANSWER_S`."""

_SILENT = "removal.silent"
"""Marker file in the cluster's folder: the API server did not answer the last time."""


async def main(folder: Path) -> int:
    """Remove all objects that the cluster of a folder created; return 0 when none is left."""
    owner = ownership.of(folder)
    silent = folder / _SILENT
    async with Client(state.access(folder, "harness"), user_agent="grovescale-cluster") as client:
        deadline = time.monotonic() + (_ANSWER_AGAIN_S if silent.exists() else _ANSWER_S)
        while True:
            try:
                found = await remove(client, owner)
            except ServerUnavailable as error:
                # The API server may be restarting.
                if time.monotonic() > deadline:
                    silent.touch()
                    _say(f"the API server does not answer: {error.message}")
                    _say(f"should that cluster be no more, forget what was made there: rm -r {str(folder)!r}")
                    return 1
                await asyncio.sleep(1)
            except ApiError as error:
                _say(error.message)
                return 1
            else:
                return _tell(found)


def _tell(found: Removal) -> int:
    _say(f"removed: {', '.join(found.removed) or 'nothing was left'}")
    for line in found.kept:
        _say(f"stays: {line}")
    for line in found.stuck:
        _say(f"does not go: {line}")
    return 1 if found.stuck else 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]))))

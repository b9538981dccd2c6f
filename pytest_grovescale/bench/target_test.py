"""The scale test that is run repeatedly, collected by pytest before anything starts; and what each run starts with."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from .. import resources
from ..errors import UsageError

DESCRIBE = "GROVESCALE_DESCRIBE"
"""Environment variable: the file in which the plugin describes the scale tests that pytest collected."""

SCENARIOS = "fixtures/scenarios"
DEFAULT = "test_pcs.py"

_TAIL_LINES = 15
_USAGE = 4
"""Exit code of pytest for usage errors."""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A scale test, and the cluster that it requests by marker, options or ini."""

    nodeid: str
    path: str
    """Absolute path of its file."""
    name: str
    cluster: str
    kubernetes: str = ""
    nodes: int | None = None
    allowed_contexts: tuple[str, ...] = ()
    """Non-local contexts of a kubeconfig that may be used."""
    operator: str = ""
    """Operator definition that its marker or the ini file names; empty: none."""

    @property
    def argument(self) -> str:
        """The argument that selects exactly this test in pytest, from any folder."""
        return f"{self.path}::{self.nodeid.partition('::')[2]}"


def cluster_options(
    cluster: str, *, kubernetes: str = "", nodes: int | None = None, allowed_contexts: Sequence[str] = ()
) -> list[str]:
    """Return the pytest options that select such a cluster; empty settings are left to the test."""
    given = {"cluster": cluster, "kubernetes": kubernetes, "nodes": nodes}
    contexts = [f"--grovescale-allow-context={name}" for name in allowed_contexts]
    return [f"--grovescale-{name}={value}" for name, value in given.items() if value] + contexts


def find(test: str, options: Sequence[str] = ()) -> Subject:
    """Return the one scale test that ``test`` (file or node id; empty: the bundled scenario) names.

    ``options`` are passed to pytest. Raises UsageError, with pytest's message, for none or several tests, and for
    invalid options.
    """
    wanted = test or str(resources.find(SCENARIOS, DEFAULT))
    with tempfile.TemporaryDirectory(prefix="grovescale-") as folder:
        file = Path(folder) / "collected.json"
        command = [sys.executable, "-m", "pytest", "--grovescale", "--collect-only", "-q", "-p", "no:cacheprovider"]
        done = subprocess.run(
            # Without a profiling pass: a test is one item, whatever its marker requests.
            [*command, "-n", "0", "--grovescale-profile=off", *options, wanted],
            env={**os.environ, DESCRIBE: str(file)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0 or not file.is_file():
            tail = (done.stdout + done.stderr).strip().splitlines()[-_TAIL_LINES:]
            mistakes = done.stderr.strip()
            if done.returncode == _USAGE and mistakes.startswith("ERROR: ") and "not found" not in mistakes:
                text = mistakes.removeprefix("ERROR: ").replace("\nERROR: ", "\n")
                # As grovescale's own commands name these options.
                raise UsageError(re.sub(r"--grovescale-(param|cluster|kubernetes|nodes)\b", r"--\1", text))
            raise UsageError(
                "\n".join([f"pytest finds no test by {wanted!r}:", *(f"  {line}" for line in tail)]),
                next_step="Name a file with one scale test, or one test: tests/scale/test_mine.py::test_it.",
            )
        found = msgspec.json.decode(file.read_bytes(), type=list[Subject])
    if len(found) != 1:
        names = "".join(f"\n  {subject.nodeid}" for subject in found)
        raise UsageError(
            f"{wanted} has {len(found) or 'no'} scale tests" + (f":{names}" if names else ""),
            next_step="Name the one that is to be run; a scale test is one that uses the fixture `scale`.",
        )
    return found[0]

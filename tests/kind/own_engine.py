"""A program: an engine of our own from its start to its end. It sees no other engine: see `test_kind_engine.py`.

Arguments: a folder for the engine's images, and a static program. Prints what it saw as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pytest_grovescale.cluster import binaries, processes
from tools.kind import engine as engines
from tools.kind import image_archive
from tools.kind.image_archive import ProgramImage

IMAGE = "grovescale-test:program"


def main(cache: Path, program: Path) -> dict[str, object]:
    """Start an engine, run containers, and stop it while one is left."""
    engine, started = engines.ensure(cache, _say)
    again, started_again = engines.ensure(cache, _say)
    try:
        image_archive.write(cache / "image.tar", [ProgramImage(name=IMAGE, program=program)], binaries.architecture())
        engine.docker("load", "--quiet", "--input", str(cache / "image.tar"))
        said = engine.docker("run", "--rm", "--privileged", IMAGE, "--version")
        engine.docker("create", IMAGE)
        containers = len(engine.docker("ps", "--all", "--quiet").split())
    finally:
        engines.stop(engine, _say)
    return {
        "started": [started, started_again],
        "same": engine == again,
        "said": said,
        "containers_before_stop": containers,
        "alive": processes.alive(engine.pid, engine.started_ticks),
        "running_after": engines.running() is not None,
    }


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    json.dump(main(Path(sys.argv[1]), Path(sys.argv[2])), sys.stdout)

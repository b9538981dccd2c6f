"""``python -m pytest_grovescale.reference_operator``: exit status 0 after a stop, 1 after a failure, 2 for usage."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys

from . import program, settings
from .api_client import ApiError
from .credentials import CredentialsError
from .leader_election import LeadershipLost


def main() -> int:
    """Run the operator of the command line."""
    given = settings.parse()
    logging.basicConfig(
        level=given.log_level.upper(),
        stream=sys.stderr,
        format="%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
    )
    # Most objects live as long as the cache that holds them: frequent garbage collection would free almost nothing.
    gc.set_threshold(50_000, 20, 50)
    try:
        asyncio.run(program.run(given))
    except (CredentialsError, LeadershipLost, ApiError, OSError) as error:
        logging.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The official ``kubernetes`` client, for users' helpers that are written with it.

The harness itself does not use it: it is synchronous, and its import takes longer than a session without scale tests.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubernetes.client import ApiClient


@contextlib.contextmanager
def opened(kubeconfig: Path) -> Iterator[ApiClient]:
    """Yield a client of a kubeconfig's current context; close its connections afterwards."""
    from kubernetes.config import new_client_from_config

    with new_client_from_config(config_file=str(kubeconfig), persist_config=False) as client:
        yield client

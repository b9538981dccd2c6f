"""The backend ``kind``: a control plane in a container on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from ...definitions import Source
from .. import state
from ..backend import Backend, Progress
from ..definition import ClusterDefinition, Kind
from ..launch import Plan
from . import configuration


class InContainer(Backend):
    """The control plane's node runs containers, too; the others are simulated."""

    name: ClassVar[str] = "kind"
    pods_on_control_plane: ClassVar[bool] = True

    def start(self, plan: Plan, progress: Progress) -> state.Facts:
        from .start import start

        return start(plan, progress)

    def binaries(self, definition: ClusterDefinition) -> tuple[str, ...]:
        return configuration.BINARIES if (definition.kind or Kind()).kwok == "host" else ("kind",)

    def check(self, written: ClusterDefinition, source: Source) -> ClusterDefinition:
        return configuration.check(written, source)

    def makes(self, definition: ClusterDefinition) -> bool:
        return not (definition.kind or Kind()).cluster

    def version_decided_by(self, definition: ClusterDefinition) -> str:
        settings = definition.kind or Kind()
        if settings.cluster:
            return "a cluster that is there"
        return f"the node image {settings.image}" if settings.image else ""

    def engine(self) -> str:
        from .container_engine import find

        engine = find()
        return f"{engine.name} {engine.version}"

    def trouble(self, container: state.Container) -> str:
        from .container_engine import trouble

        return trouble(container)

    def build_image(
        self,
        image: str,
        dockerfile: Path,
        context: Path,
        arguments: Mapping[str, str],
        container: state.Container,
        archive: Path,
    ) -> None:
        from .images import build

        build(image, dockerfile, context, arguments, container, archive)

    def load_image(
        self,
        archive: Path,
        container: state.Container,
        *,
        kubernetes: str,
        given: Mapping[str, str],
        progress: Progress,
    ) -> None:
        from .images import load

        load(archive, container, kubernetes=kubernetes, given=given, progress=progress)


BACKEND = InContainer()

"""A definition and the places of one run, put together: argument list, environment, files, URLs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec

from .placeholders import PORTS, fill, names
from .private import write_private
from .shape import OperatorDefinition, Repeated, texts, urls

_INHERITED = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "PYTHONPATH",
    "GOROOT",
    "GOPATH",
    "GOCACHE",
    "GOMODCACHE",
    "GOFLAGS",
    "GOTOOLCHAIN",
    "LD_LIBRARY_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "VIRTUAL_ENV",
)


class Launch(msgspec.Struct, frozen=True):
    """What one start needs, all placeholders filled."""

    argv: list[str]
    env: dict[str, str]
    workdir: str
    files: dict[str, str]
    """Name → text."""
    readiness_url: str
    metrics_url: str = ""
    pprof_url: str = ""

    @property
    def text(self) -> str:
        """The command as one would type it."""
        return shlex.join(self.argv)


def ports_used(definition: OperatorDefinition) -> list[str]:
    """Return the port placeholders that a definition uses, in order."""
    used = {name for text in (texts(definition) | urls(definition)).values() for name in names(text)}
    return [name for name in PORTS if name in used]


def launch(definition: OperatorDefinition, provided: Mapping[str, str], *, environ: Mapping[str, str]) -> Launch:
    """Return the launch for the ``provided`` placeholders (see ``placeholders.PROVIDED``)."""
    single = {name: value for name, value in definition.settings.items() if isinstance(value, str)}
    values = {**single, **provided}
    argv: list[str] = []
    for item in definition.command:
        if isinstance(item, Repeated):
            chosen = definition.settings[item.for_]
            for one in (chosen,) if isinstance(chosen, str) else chosen:
                argv += [fill(text, {**values, item.for_: one}) for text in item.arguments]
        else:
            argv.append(fill(item, values))
    return Launch(
        argv=argv,
        env=_environment(definition, values, environ),
        workdir=definition.workdir,
        files={name: fill(text, values) for name, text in definition.files.items()},
        readiness_url=fill(definition.readiness.url, values),
        metrics_url=fill(definition.metrics.url, values) if definition.metrics else "",
        pprof_url=fill(definition.pprof.url, values) if definition.pprof else "",
    )


def write_files(launch: Launch, folder: Path) -> None:
    """Write the launch's configuration files, 0600."""
    for name, text in launch.files.items():
        write_private(folder / name, text)


def _environment(
    definition: OperatorDefinition, values: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the process' environment: little is inherited, so that a run does not depend on whose shell started it.

    KUBECONFIG is the operator's own, so that one that ignores its ``--kubeconfig`` still never becomes admin.
    """
    inherited = {name: environ[name] for name in _INHERITED if name in environ}
    own = {"KUBECONFIG": values["kubeconfig"], "PYTHONUNBUFFERED": "1"}
    if definition.limits.gomaxprocs is not None:
        own["GOMAXPROCS"] = str(definition.limits.gomaxprocs)
    return inherited | own | {name: fill(text, values) for name, text in definition.env.items()}

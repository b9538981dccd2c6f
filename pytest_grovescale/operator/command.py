"""A definition and the places of one run, put together: argument list, environment, files, URLs, cores."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ..atomic_write import write_private
from ..endpoints import Address, addressed
from ..errors import UsageError
from .endpoints import credentials
from .placeholders import BINARIES, PORTS, fill, names
from .schema import Endpoint, OperatorDefinition, Repeated, texts, urls


def core_numbers(cores: int | list[int] | None, available: set[int] | None = None) -> list[int]:
    """Return the cores to pin to; empty: no pinning.

    A number means the first that many of ``available`` (default: those that this process may use). Raises UsageError
    for more cores, or others, than available.
    """
    if cores is None:
        return []
    usable = sorted(os.sched_getaffinity(0) if available is None else available)
    wanted = usable[:cores] if isinstance(cores, int) else sorted(set(cores))
    if (isinstance(cores, int) and cores > len(usable)) or not set(wanted) <= set(usable):
        raise UsageError(
            f"limits.cores asks for {cores}, this machine lets us use {usable}",
            next_step="Lower limits.cores in the operator definition.",
        )
    return wanted


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
    "JAVA_HOME",
    "DOTNET_ROOT",
)


class Launch(msgspec.Struct, frozen=True):
    """Input of one start, all placeholders filled."""

    argv: list[str]
    env: dict[str, str]
    workdir: str
    files: dict[str, str]
    """Name → text."""
    readiness: Address | None
    """None: a line of its output says so."""
    metrics: Address | None = None
    pprof: Address | None = None
    stacks: Address | None = None

    @property
    def text(self) -> str:
        """The command as a shell command line."""
        return shlex.join(self.argv)


def ports_used(definition: OperatorDefinition) -> list[str]:
    """Return the placeholders of a definition for free ports, in order."""
    used = {name for text in (texts(definition) | urls(definition)).values() for name in names(text)}
    return [name for name in PORTS if name in used and not (name == "webhook_port" and definition.webhook_port)]


def binaries_used(definition: OperatorDefinition) -> list[str]:
    """Return the Kubernetes binaries that a definition uses, by their release names."""
    used = {name for text in texts(definition).values() for name in names(text)}
    return [binary for placeholder, binary in BINARIES.items() if placeholder in used]


def launch(definition: OperatorDefinition, provided: Mapping[str, str], *, environ: Mapping[str, str]) -> Launch:
    """Return the launch for the ``provided`` placeholders (see ``placeholders.PROVIDED``)."""
    assert definition.readiness is not None  # a definition without it is no process, and was rejected
    values = {**single_values(definition), **provided}
    return Launch(
        argv=filled(definition.command, definition, values),
        env=_environment(definition, values, environ),
        workdir=definition.workdir,
        files={name: fill(text, values) for name, text in definition.files.items()},
        readiness=_address(definition.readiness, values) if definition.readiness.url else None,
        metrics=_address(definition.metrics, values) if definition.metrics and definition.metrics.url else None,
        pprof=_address(definition.pprof, values) if definition.pprof else None,
        stacks=_address(definition.stacks, values) if definition.stacks else None,
    )


def single_values(definition: OperatorDefinition) -> dict[str, str]:
    """Return the chosen values that are not lists."""
    return {name: value for name, value in definition.settings.items() if isinstance(value, str)}


def filled(items: Sequence[str | Repeated], definition: OperatorDefinition, values: Mapping[str, str]) -> list[str]:
    """Return arguments with placeholders replaced, and `Repeated` ones expanded for each item of their list value."""
    arguments: list[str] = []
    for item in items:
        if isinstance(item, Repeated):
            chosen = definition.settings[item.for_]
            for one in (chosen,) if isinstance(chosen, str) else chosen:
                arguments += [fill(text, {**values, item.for_: one}) for text in item.arguments]
        else:
            arguments.append(fill(item, values))
    return arguments


def write_files(launch: Launch, folder: Path) -> None:
    """Write the launch's configuration files, 0600."""
    for name, text in launch.files.items():
        write_private(folder / name, text)


def _address(endpoint: Endpoint, values: Mapping[str, str]) -> Address:
    return addressed(fill(endpoint.url, values), credentials(endpoint, values))


def _environment(
    definition: OperatorDefinition, values: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the process' environment: little is inherited, so that a run does not depend on the shell that started it.

    KUBECONFIG is the operator's own, so that an operator that ignores ``--kubeconfig`` never becomes admin.
    """
    inherited = {name: environ[name] for name in _INHERITED if name in environ}
    own = {"KUBECONFIG": values["kubeconfig"], "PYTHONUNBUFFERED": "1"}
    if definition.limits.gomaxprocs is not None:
        own["GOMAXPROCS"] = str(definition.limits.gomaxprocs)
    return inherited | own | {name: fill(text, values) for name, text in definition.env.items()}

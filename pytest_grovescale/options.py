"""Every option of the plugin: names, types, defaults and where they come from.

The command line beats ini, ini beats the default. Nothing here imports what is heavy: options are registered in
every project that has the plugin installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from . import durations
from .errors import UsageError


class Option(NamedTuple):
    """One option: ``--grovescale-<name>`` and ini ``grovescale_<name>``."""

    name: str
    ini_type: Literal["string", "linelist", "bool", "paths"]
    default: Any
    help: str
    metavar: str = "VALUE"

    @property
    def flag(self) -> str:
        """As on the command line."""
        return f"--grovescale-{self.name.replace('_', '-')}"


OPTIONS = (
    Option("cluster", "string", "default", "cluster definition file, or the name of a running cluster", "FILE|NAME"),
    Option("operator", "string", "reference", "operator definition file", "FILE|NAME"),
    Option("kubernetes", "string", "", "Kubernetes version, instead of the cluster definition's", "VERSION"),
    Option("nodes", "string", "", "number of simulated nodes, instead of the definition's or the test's", "N"),
    Option("set", "linelist", [], "value for the operator definition, e.g. variant=baseline", "NAME=VALUE"),
    Option("param", "linelist", [], "parameter for the tests, read by scale.parameter(NAME, default)", "NAME=VALUE"),
    Option("start", "string", "", "start the operator anew per `test` or per `session`, instead of the definition's"),
    Option("hold", "string", "", "cut every hold of a phase to this, as 5s", "DURATION"),
    Option("budgets", "string", "on", "hold tests to their checks: `on`; `off` reports, and measures nothing for them"),
    Option("inconclusive", "string", "fail", "what a check that cannot be decided does to its test: `fail` or `warn`"),
    Option(
        "profile",
        "string",
        "off",
        "run each scale test a second time with a profiler attached: `pyspy`, `pprof`, `auto` (what suits) or `off`",
    ),
    Option("save", "string", "", "save the figures as a baseline of this name", "NAME"),
    Option("compare", "string", "", "show the figures beside those of a baseline", "NAME"),
    Option("missing_baseline", "string", "warn", "what it does when that baseline is not there: `warn` or `fail`"),
    Option("reports", "string", "reports", "folder for recordings, results and logs", "DIR"),
    Option("keep", "bool", False, "leave cluster, namespaces and operator objects in place afterwards"),
)

PROFILES = ("auto", "pyspy", "pprof", "off")
_CHOICES = {
    "profile": PROFILES,
    "budgets": ("on", "off"),
    "inconclusive": ("fail", "warn"),
    "missing_baseline": ("warn", "fail"),
}


class Settings(NamedTuple):
    """All options, read and checked."""

    given: frozenset[str]
    """Names of those on the command line: they beat a test's marker, which beats ini."""

    enabled: bool
    cluster: str
    operator: str
    kubernetes: str
    nodes: int | None
    values: dict[str, str]
    parameters: dict[str, str]
    start: str
    hold_s: float | None
    """Longest hold of a phase, s; None: as the test says."""
    profile: Literal["auto", "pyspy", "pprof", "off"]
    budgets: bool
    inconclusive: Literal["fail", "warn"]
    save: str
    """Name of the baseline that this run becomes; empty: of none."""
    compare: str
    """Name of the baseline that its figures are shown beside; empty: of none."""
    missing_baseline: Literal["warn", "fail"]
    reports: Path
    keep: bool


def register(parser: pytest.Parser) -> None:
    """Add all options and ini settings."""
    group = parser.getgroup("grovescale", "scale tests for Kubernetes operators")
    group.addoption(
        "--grovescale", action="store_true", default=False, help="run the scale tests (they are skipped otherwise)"
    )
    for option in OPTIONS:
        flag, dest = option.flag, f"grovescale_{option.name}"
        text = f"{option.help} (ini: {dest})"
        if option.ini_type == "bool":
            group.addoption(flag, dest=dest, action="store_true", default=None, help=text)
        elif option.ini_type == "linelist":
            group.addoption(flag, dest=dest, action="append", default=None, metavar=option.metavar, help=text)
        else:
            group.addoption(flag, dest=dest, default=None, metavar=option.metavar, help=text)
        parser.addini(dest, option.help, type=option.ini_type, default=option.default)


def read(config: pytest.Config) -> Settings:
    """Return the settings of a run; raises pytest.UsageError for a value that cannot be."""
    values = {option.name: _value(config, option.name) for option in OPTIONS}
    nodes = values["nodes"]
    if nodes and not (nodes.isdigit() and int(nodes) > 0):
        raise pytest.UsageError(f"--grovescale-nodes {nodes}: not a number of nodes (1 or more)")
    if values["start"] not in ("", "test", "session"):
        raise pytest.UsageError(f"--grovescale-start {values['start']}: use `test` or `session`")
    for name, choices in _CHOICES.items():
        if values[name] not in choices:
            flag = f"--grovescale-{name.replace('_', '-')}"
            raise pytest.UsageError(f"{flag} {values[name]}: use `{'` or `'.join(choices)}`")
    reports = Path(values["reports"])
    return Settings(
        given=frozenset(o.name for o in OPTIONS if config.getoption(f"grovescale_{o.name}") is not None),
        enabled=bool(config.getoption("grovescale")),
        cluster=values["cluster"],
        operator=values["operator"],
        kubernetes=values["kubernetes"],
        nodes=int(nodes) if nodes else None,
        values=_pairs("set", values["set"]),
        parameters=_pairs("param", values["param"]),
        start=values["start"],
        hold_s=_seconds("hold", values["hold"]),
        profile=values["profile"],
        budgets=values["budgets"] == "on",
        inconclusive=values["inconclusive"],
        save=values["save"],
        compare=values["compare"],
        missing_baseline=values["missing_baseline"],
        reports=reports if reports.is_absolute() else config.rootpath / reports,
        keep=bool(values["keep"]),
    )


def _value(config: pytest.Config, name: str) -> Any:
    given = config.getoption(f"grovescale_{name}")
    return config.getini(f"grovescale_{name}") if given is None else given


def _seconds(option: str, given: str) -> float | None:
    try:
        return durations.seconds(given) if given else None
    except UsageError as error:
        raise pytest.UsageError(f"--grovescale-{option} {given}: not a duration, as 5s or 2m") from error


def _pairs(option: str, given: list[str]) -> dict[str, str]:
    pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise pytest.UsageError(f"--grovescale-{option} {text}: not NAME=VALUE")
        pairs[name.strip()] = value.strip()
    return pairs

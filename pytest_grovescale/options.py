"""Every option of the plugin: names, types, defaults and precedence.

The command line overrides ini, ini overrides the default. Nothing here imports expensive modules: options are
registered in every project that has the plugin installed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from . import durations
from .errors import UsageError
from .suggestions import did_you_mean


class Option(NamedTuple):
    """One option: ``--grovescale-<name>`` and ini ``grovescale_<name>``."""

    name: str
    ini_type: Literal["string", "linelist", "bool", "paths"]
    default: Any
    help: str
    metavar: str = "VALUE"

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return f"--grovescale-{self.name.replace('_', '-')}"


OPTIONS = (
    Option(
        "cluster",
        "string",
        "default",
        "cluster definition file or the name of one (`kind`), `existing:CONTEXT`, or the name of a running cluster",
        "FILE|NAME",
    ),
    Option(
        "allow_context",
        "linelist",
        [],
        "allow this non-local context of a kubeconfig, for `existing` clusters",
        "NAME",
    ),
    Option("cluster_per_worker", "bool", False, "with xdist: a cluster of its own for each worker"),
    Option(
        "operator",
        "string",
        "",
        "operator definition file; `reference` for the bundled operator, `none` for tests without one",
        "FILE|NAME",
    ),
    Option("kubernetes", "string", "", "Kubernetes version, instead of the cluster definition's", "VERSION"),
    Option("nodes", "string", "", "number of simulated nodes, instead of the definition's or the test's", "N"),
    Option(
        "workdir",
        "string",
        "",
        "folder that the operator runs in where its definition names none, instead of the one pytest was started in",
        "DIR",
    ),
    Option("set", "linelist", [], "value for the operator definition, e.g. variant=baseline", "NAME=VALUE"),
    Option("param", "linelist", [], "parameter for the tests, read by scale.parameter(NAME, default)", "NAME=VALUE"),
    Option("start", "string", "", "restart the operator per `test` or per `session`, instead of the definition's"),
    Option(
        "scrape_interval",
        "string",
        "",
        "time between two scrapes of a target, as 2s, instead of the definition's or 5s; 0: at phase edges only",
        "DURATION",
    ),
    Option("hold", "string", "", "cut every hold of a phase to this, as 5s", "DURATION"),
    Option(
        "stall_limit",
        "string",
        "",
        "end a phase in which no milestone's count has changed for this long, as 2m, instead of at its timeout",
        "DURATION",
    ),
    Option(
        "wait_quiet",
        "string",
        "",
        "before each phase, wait up to this long, as 2m, for a quiet machine: other programs and steal take at most "
        "10 % of the cores; then go on, and mark the phase",
        "DURATION",
    ),
    Option("budgets", "string", "on", "hold tests to their checks: `on`; `off` reports, and measures nothing for them"),
    Option(
        "contention_limit",
        "string",
        "10%",
        "share of the cores that other programs may use before a bound on CPU, time or retries that is exceeded is "
        "inconclusive",
        "PERCENT",
    ),
    Option(
        "findings",
        "string",
        "warn",
        "what the recording shows to be wrong with the operator, without a declared check: `warn` shows it, `fail` "
        "fails the test by what is a defect or waste, `off` leaves it out",
    ),
    Option("inconclusive", "string", "fail", "what a check that cannot be decided does to its test: `fail` or `warn`"),
    Option(
        "profile",
        "string",
        "off",
        "run each scale test a second time with a profiler attached: `pyspy`, `pprof`, `auto` (what suits) or `off`",
    ),
    Option(
        "scrape",
        "string",
        "operator",
        "whose metrics are recorded: the `operator`'s, or those of the control plane's `components` too",
    ),
    Option(
        "prometheus",
        "string",
        "off",
        "Prometheus for scale.promql() and scale.statistics(): `start` one, `keep` its data too, or one that is there",
        "start|keep|off|URL",
    ),
    Option("prometheus_interval", "string", "5s", "time between two scrapes of one that is started", "DURATION"),
    Option("prometheus_token", "string", "", "file with a bearer token for a Prometheus that is there", "FILE"),
    Option("prometheus_ca", "string", "", "PEM file that vouches for a Prometheus that is there", "FILE"),
    Option("save", "string", "", "save the figures as a baseline of this name", "NAME"),
    Option("compare", "string", "", "show the figures beside those of a baseline", "NAME"),
    Option("history", "string", "", "add the figures to the history in this folder, one file for a run", "DIR"),
    Option("missing_baseline", "string", "warn", "what it does when that baseline is not there: `warn` or `fail`"),
    Option("reports", "string", "reports", "folder for recordings, results and logs", "DIR"),
    Option("keep", "bool", False, "leave cluster, namespaces and operator objects in place afterwards"),
)

STARTS = ("test", "session")
_PROMETHEUS = ("off", "start", "keep")
PROFILES = ("auto", "pyspy", "pprof", "off")
SHORTEST_SCRAPE_INTERVAL_S = 0.1
_CHOICES = {
    "profile": PROFILES,
    "scrape": ("operator", "components"),
    "budgets": ("on", "off"),
    "findings": ("warn", "fail", "off"),
    "inconclusive": ("fail", "warn"),
    "missing_baseline": ("warn", "fail"),
}


class Settings(NamedTuple):
    """All options, read and validated."""

    given: frozenset[str]
    """Names of those on the command line: they override a test's marker, which overrides ini."""

    enabled: bool
    cluster: str
    allow_context: tuple[str, ...]
    """Allowed contexts that are not on loopback."""
    cluster_per_worker: bool
    operator: str
    kubernetes: str
    nodes: int | None
    workdir: Path | None
    """Working folder of an operator whose definition names none; None: the one pytest was started in."""
    values: dict[str, str]
    parameters: dict[str, str]
    start: str
    scrape_interval_s: float | None
    """Time between two scrapes, s; 0: at phase edges only; None: as the operator's definition says, or 5 s."""
    hold_s: float | None
    """Longest hold of a phase, s; None: as the test says."""
    stall_s: float | None
    """Longest time without a change of any count of a phase, s; None: its timeout."""
    wait_quiet_s: float
    """Longest wait for a quiet machine before a phase, s; 0: none."""
    profile: Literal["auto", "pyspy", "pprof", "off"]
    scrape: Literal["operator", "components"]
    """``components``: the operator and the control plane's."""
    prometheus: str
    """``off``, ``start``, ``keep`` or a URL."""
    prometheus_interval_s: float
    prometheus_token: str
    """File; empty: none is sent."""
    prometheus_ca: str
    """File; empty: the system's authorities."""
    budgets: bool
    findings: Literal["warn", "fail", "off"]
    inconclusive: Literal["fail", "warn"]
    contention_limit: float
    """Share of the cores, 0 to 1."""
    save: str
    """Name under which this run is saved as a baseline; empty: not saved."""
    compare: str
    """Name of the baseline to compare with; empty: none."""
    missing_baseline: Literal["warn", "fail"]
    history: Path | None
    """Folder of the history that this run is added to; None: none."""
    reports: Path
    keep: bool


def misspelt(arguments: Iterable[str]) -> str:
    """Return an error for an argument that begins as the plugin's options do and is none of them; empty without one."""
    known = ["--grovescale", *(option.flag for option in OPTIONS)]
    for argument in arguments:
        name = argument.partition("=")[0]
        if name.startswith("--grov") and name not in known:
            return f"unrecognized argument: {name}\n  → {did_you_mean(name, known) or 'See: pytest --help'}"
    return ""


def register(parser: pytest.Parser) -> None:
    """Add all options and ini settings."""
    group = parser.getgroup("grovescale", "scale tests for Kubernetes operators")
    group.addoption(
        "--grovescale", action="store_true", default=False, help="run the scale tests (they are skipped otherwise)"
    )
    for option in OPTIONS:
        flag, dest = option.flag, f"grovescale_{option.name}"
        # argparse takes a percent sign for a placeholder.
        text = f"{option.help} (ini: {dest})".replace("%", "%%")
        if option.ini_type == "bool":
            group.addoption(flag, dest=dest, action="store_true", default=None, help=text)
        elif option.ini_type == "linelist":
            group.addoption(flag, dest=dest, action="append", default=None, metavar=option.metavar, help=text)
        else:
            group.addoption(flag, dest=dest, default=None, metavar=option.metavar, help=text)
        parser.addini(dest, option.help, type=option.ini_type, default=option.default)


def read(config: pytest.Config) -> Settings:
    """Return the settings of a run; raises pytest.UsageError for an invalid value."""
    values = {option.name: _value(config, option.name) for option in OPTIONS}
    nodes = values["nodes"]
    if nodes and not (nodes.isdigit() and int(nodes) > 0):
        raise pytest.UsageError(f"--grovescale-nodes {nodes}: not a number of nodes (1 or more)")
    if values["start"]:
        check_choice(values["start"], STARTS, "--grovescale-start")
    check_prometheus(values["prometheus"], "--grovescale-prometheus")
    for name, choices in _CHOICES.items():
        check_choice(values[name], choices, f"--grovescale-{name.replace('_', '-')}")
    reports = Path(values["reports"])
    enabled = bool(config.getoption("grovescale"))
    return Settings(
        given=frozenset(o.name for o in OPTIONS if config.getoption(f"grovescale_{o.name}") is not None),
        enabled=enabled,
        cluster=values["cluster"],
        allow_context=tuple(values["allow_context"]),
        cluster_per_worker=bool(values["cluster_per_worker"]),
        operator=values["operator"],
        kubernetes=values["kubernetes"],
        nodes=int(nodes) if nodes else None,
        workdir=_folder("workdir", values["workdir"], base=config.invocation_params.dir),
        values=_pairs("set", values["set"]),
        parameters=_pairs("param", values["param"]),
        start=values["start"],
        scrape_interval_s=_seconds("scrape-interval", values["scrape_interval"]),
        hold_s=_seconds("hold", values["hold"]),
        stall_s=_seconds("stall-limit", values["stall_limit"]),
        wait_quiet_s=_seconds("wait-quiet", values["wait_quiet"]) or 0.0,
        profile=values["profile"],
        scrape=values["scrape"],
        prometheus=values["prometheus"],
        prometheus_interval_s=_prometheus_interval(values["prometheus_interval"]),
        prometheus_token=_file("prometheus-token", values["prometheus_token"], needed=enabled),
        prometheus_ca=_file("prometheus-ca", values["prometheus_ca"], needed=enabled),
        budgets=values["budgets"] == "on",
        findings=values["findings"],
        inconclusive=values["inconclusive"],
        contention_limit=_share("contention-limit", values["contention_limit"]),
        save=values["save"],
        compare=values["compare"],
        missing_baseline=values["missing_baseline"],
        history=config.rootpath / values["history"] if values["history"] else None,
        reports=reports if reports.is_absolute() else config.rootpath / reports,
        keep=bool(values["keep"]),
    )


_NOT_REPEATED = ("save", "compare", "missing_baseline", "history", "reports", "keep", "prometheus_token")
"""Options of one session, which do not affect a test's measurement, or which a page must not repeat."""


def repeating(config: pytest.Config, nodeid: str) -> str:
    """Return the command that reruns one test with the options of this run's command line; ini is read again.

    Secret values, by their names, are left for the user to fill in.
    """
    from . import redaction

    parts = ["python", "-m", "pytest", "--grovescale", nodeid]
    for option in OPTIONS:
        given = config.getoption(f"grovescale_{option.name}")
        if given is None or option.name in _NOT_REPEATED:
            continue
        if option.ini_type == "bool":
            parts.append(option.flag)
        else:
            parts += [f"{option.flag}={value}" for value in (given if isinstance(given, list) else [given])]
    return shlex.join(redaction.arguments(parts))


def check_choice(given: str, choices: tuple[str, ...], where: str) -> None:
    """Raise pytest.UsageError for a value that is not among the choices."""
    if given not in choices:
        raise pytest.UsageError(f"{where} {given}: use `{'` or `'.join(choices)}`{_hint(given, choices)}")


def check_prometheus(wanted: str, where: str) -> None:
    """Raise pytest.UsageError for an invalid Prometheus setting."""
    if wanted not in _PROMETHEUS and not wanted.startswith(("http://", "https://")):
        raise pytest.UsageError(
            f"{where} {wanted}: use `start`, `keep`, `off` or the URL of one that is there{_hint(wanted, _PROMETHEUS)}"
        )


def _hint(given: str, choices: tuple[str, ...]) -> str:
    near = did_you_mean(given, choices)
    return f". {near}" if near else ""


def _prometheus_interval(given: str) -> float:
    seconds = _seconds("prometheus-interval", given)
    if seconds is None or seconds < SHORTEST_SCRAPE_INTERVAL_S:
        raise pytest.UsageError(f"--grovescale-prometheus-interval {given}: use 100ms or more")
    return seconds


def _value(config: pytest.Config, name: str) -> Any:
    given = config.getoption(f"grovescale_{name}")
    return config.getini(f"grovescale_{name}") if given is None else given


def _seconds(option: str, given: str) -> float | None:
    return check_duration(given, f"--grovescale-{option}")


def check_duration(given: str, where: str) -> float | None:
    """Return a duration in seconds; None for an empty text. Raises pytest.UsageError for an invalid one."""
    try:
        return durations.seconds(given) if given else None
    except UsageError as error:
        raise pytest.UsageError(f"{where} {given}: not a duration, as 5s or 2m") from error


def _share(option: str, given: str) -> float:
    """Return a share given in percent, as ``10%``."""
    number = given.strip().removesuffix("%").strip()
    try:
        percent = float(number)
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise pytest.UsageError(f"--grovescale-{option} {given}: not a share, as 10% (0% to 100%)")
    return percent / 100


def _folder(option: str, given: str, *, base: Path) -> Path | None:
    """Return an existing folder as an absolute path; None for an empty text."""
    if not given:
        return None
    folder = (base / given).expanduser().resolve()
    if not folder.is_dir():
        raise pytest.UsageError(f"--grovescale-{option} {given}: no such folder: {folder}")
    return folder


def _file(option: str, given: str, *, needed: bool) -> str:
    """Return a file's absolute path, empty for an empty text; raises pytest.UsageError for a missing, needed file."""
    path = str(Path(given).expanduser().absolute()) if given else ""
    if path and needed and not Path(path).is_file():
        raise pytest.UsageError(f"--grovescale-{option} {given}: no such file: {path}")
    return path


def _pairs(option: str, given: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    if not given:
        return pairs
    # Imported late: it takes 16 ms, in every project that has the package installed.
    from . import redaction

    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            shown = redaction.arguments([f"--grovescale-{option}", text])[1]
            raise pytest.UsageError(f"--grovescale-{option} {shown}: not NAME=VALUE")
        pairs[name.strip()] = value.strip()
    redaction.conceal(*redaction.secrets_in(pairs))
    return pairs

"""The function table of a profile: self, cumulative, share with its Wilson interval, CPU seconds; and which code
is not the operator's own."""

from __future__ import annotations

import re
import sys
from fnmatch import fnmatchcase
from math import sqrt

from ..phase_result import FunctionRow
from .stacks import Function, Stacks

GO_STANDARD = re.compile(
    "(?:archive|bufio|bytes|cmp|compress|container|context|crypto|database|debug|embed|encoding|errors|expvar|flag|fmt|go"
    "|hash|html|image|index|internal|io|iter|log|maps|math|mime|net|os|path|plugin|reflect|regexp|runtime|slices|sort"
    "|strconv|strings|structs|sync|syscall|testing|text|time|unicode|unique|unsafe|weak)(?:[./]|$)"
)
"""Packages of Go's standard library, and functions in them by their full name."""

GO_LIBRARIES = (
    *("github.com/beorn7/", "github.com/evanphx/json-patch", "github.com/fxamacker/", "github.com/go-logr/"),
    *("github.com/gogo/", "github.com/google/", "github.com/json-iterator/", "github.com/modern-go/"),
    *("github.com/prometheus/", "github.com/spf13/", "go.opentelemetry.io/", "go.uber.org/", "golang.org/x/"),
    *("google.golang.org/", "gopkg.in/", "k8s.io/api/", "k8s.io/apimachinery/", "k8s.io/apiserver/"),
    *("k8s.io/client-go/", "k8s.io/component-base/", "k8s.io/klog/", "k8s.io/kube-openapi/", "k8s.io/utils/"),
    *("sigs.k8s.io/controller-runtime/", "sigs.k8s.io/json/", "sigs.k8s.io/structured-merge-diff/"),
    *("sigs.k8s.io/yaml/", "vendor/"),
)
"""Prefixes of library packages used by operators in Go."""

_PYTHON_LIBRARIES = re.compile(
    "(?:aiohttp|aiosignal|anyio|certifi|charset_normalizer|click|frozenlist|google|h11|h2|httpcore|httpx|idna|jinja2"
    "|kopf|kr8s|kubernetes|kubernetes_asyncio|lightkube|msgspec|multidict|oauthlib|orjson|prometheus_client|propcache"
    "|pydantic|pydantic_core|requests|sniffio|structlog|urllib3|uvloop|websocket|websockets|yaml|yarl)"
)
"""First parts of library modules used by operators in Python."""


def is_library(module: str) -> bool:
    """Return whether a module belongs to a standard or other library; unknown modules are the program's own.

    ``module``: a Python file as seen from its place in ``sys.path`` (``asyncio/events.py``), or a Go package's path
    (``net/http``). Names that a profiler cannot resolve (``[unknown]``, ``<frozen runpy>``) count as library.
    """
    if not module or module.startswith(("[", "<")):
        return True
    if module.endswith((".py", ".pyx")):
        first = module.split("/", 1)[0].partition(".")[0]
        return first in sys.stdlib_module_names or _PYTHON_LIBRARIES.fullmatch(first) is not None
    return f"{module}/".startswith(GO_LIBRARIES) or GO_STANDARD.match(module) is not None


Z_95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""

MIN_SAMPLES = 100
"""Fewer on-CPU samples make no table: the interval of a share of 10 % would reach from 5 % to 18 %."""

MAX_UNREADABLE = 0.02
"""Share of a capture's samples that may be torn, lost or damaged."""

PYSPY_HZ = 100
"""py-spy's samples a second and thread, as the recorder asks for them."""

WAIT_SAMPLES = 5
"""Consecutive samples of one wait for a core, where waits are weighted by their length. Measured on 2 cores with a load
of 4 to 6, 150 captures of 2 CPU seconds: true shares were in 78 % of the plain intervals of captures with 1.4 samples
and more for each that fits into their CPU time, in 98 % of those with one; with 5 fitted to the first 60 captures, in
97 % of the intervals of the other 90."""

TRUNK = frozenset(
    {
        *(("_bootstrap", "threading.py"), ("_bootstrap_inner", "threading.py"), ("run", "threading.py")),
        *(("_run_module_as_main", "<frozen runpy>"), ("_run_code", "<frozen runpy>")),
        *(("run", "asyncio/runners.py"), ("run_until_complete", "asyncio/base_events.py")),
        *(("run_forever", "asyncio/base_events.py"), ("_run", "asyncio/events.py")),
        *(("main", "runtime"), ("goexit", "runtime"), ("mcall", "runtime")),
    }
)
"""(name without its class, module) of the functions that every stack begins with and that only call the next one."""

TOP = 40
"""Rows that a result keeps of a profile."""


def function_table(
    stacks: Stacks,
    *,
    cpu_s: float | None = None,
    worth: float | None = None,
    module: str = "",
    top: int | None = None,
) -> tuple[FunctionRow, ...]:
    """Return a row per function, by cumulative samples, most first.

    ``cpu_s``: the exact CPU seconds that the shares are shares of. ``worth``: how many independent
    samples there are (`independent`), if fewer than all. ``module`` keeps the functions that `in_module`
    finds in it, ``top`` the first so many of them; shares stay shares of the whole profile.
    """
    seen = [index for index, samples in enumerate(stacks.within) if samples]
    order = sorted(
        (index for index in seen if in_module(stacks.functions[index], module)),
        key=lambda index: (-stacks.within[index], -stacks.own[index], stacks.functions[index]),
    )
    return tuple(_row(stacks, index, cpu_s, worth or stacks.total) for index in order[:top])


def _row(stacks: Stacks, index: int, cpu_s: float | None, worth: float) -> FunctionRow:
    function, samples = stacks.functions[index], stacks.within[index]
    share = samples / stacks.total
    low, high = wilson(min(share * worth, worth), worth)
    return FunctionRow(
        function=function.name,
        module=function.module,
        self_samples=stacks.own[index],
        samples=samples,
        share=share,
        share_low=low,
        share_high=high,
        cpu_s=None if cpu_s is None else share * cpu_s,
    )


def independent(samples: int, on_cpu: float | None) -> float:
    """Return the number of independent samples that py-spy's are worth; ``on_cpu``: samples that fit into the CPU time.

    py-spy samples runnable threads, including those that wait for a core: where all cores are busy it samples the same
    place again and again. With ``WAIT_SAMPLES`` in a row, the variance of a share is that of so many fewer samples (a
    cluster sample's design effect). pprof's clock stands still in a wait: None.
    """
    if on_cpu is None or not samples > on_cpu > 0:
        return float(samples)
    waited = samples - on_cpu
    return min(samples, samples * samples / (on_cpu + WAIT_SAMPLES * waited))


def problem_of(stacks: Stacks, *, errors: int = 0) -> str:
    """Return why a CPU profile has no table, and what to do; empty when it has one.

    ``errors``: stacks that the profiler counted as unreadable and left out of its file.
    """
    return _unreadable(stacks, errors) or _too_few(stacks)


def _unreadable(stacks: Stacks, errors: int) -> str:
    if stacks.cut:
        return "the file ends in the middle of a line: the rest of the profile is missing"
    lost = stacks.lost + errors
    whole = stacks.total + stacks.waiting + lost
    problems = (
        (lost, whole, "samples could not be read by the profiler"),
        (stacks.rootless, whole, "samples are torn or too deep for the profiler: their outer functions are missing"),
        (stacks.damaged, stacks.entries, "entries of the file are damaged"),
    )
    for bad, of, what in problems:
        if bad > MAX_UNREADABLE * of:
            return (
                f"{bad:,} of {of:,} {what}, more than {MAX_UNREADABLE:.0%}: its shares cannot be trusted."
                " Profile the phase again; the raw file is kept."
            )
    return ""


def _too_few(stacks: Stacks) -> str:
    if stacks.total >= MIN_SAMPLES:
        return ""
    waiting = f" ({stacks.waiting:,} more waited)" if stacks.waiting else ""
    return (
        f"{stacks.total:,} on-CPU samples{waiting}, fewer than the {MIN_SAMPLES} that a table needs:"
        " make the phase longer, or repeat the trigger of a no-op phase until there are 400"
    )


def wilson(hits: float, samples: float, z: float = Z_95) -> tuple[float, float]:
    """Return the interval of the true share that ``hits`` of ``samples`` independent samples estimate.

    E. B. Wilson (1927), "Probable inference, the law of succession, and statistical inference": unlike the normal
    approximation it holds near 0 and 1. ``samples`` may be fewer than were taken, and not an integer, where some are
    redundant; ``hits`` is then reduced in proportion. Raises ValueError unless 0 ≤ hits ≤ samples > 0.
    """
    if not 0 <= hits <= samples or samples <= 0:
        raise ValueError(f"{hits} of {samples} samples is no share")
    share = hits / samples
    square = z * z
    middle = (share + square / (2 * samples)) / (1 + square / samples)
    half = z / (1 + square / samples) * sqrt(share * (1 - share) / samples + square / (4 * samples * samples))
    # At both ends the exact bound is 0 and 1; rounding must not exclude the share itself.
    return min(max(0.0, middle - half), share), max(min(1.0, middle + half), share)


def is_trunk(row: FunctionRow | Function) -> bool:
    """Return whether a function only leads to others; a short table omits it."""
    name = (row.name if isinstance(row, Function) else row.function).partition(" (")[0]
    return name == "<module>" or (name.rpartition(".")[2], row.module) in TRUNK


def is_framework(row: FunctionRow | Function) -> bool:
    """Return whether a function is not the program's own: of a library, or one that only leads to others."""
    name = row.name if isinstance(row, Function) else row.function
    return not name.startswith("<module>") and (is_trunk(row) or is_library(row.module))


def in_module(function: Function, module: str) -> bool:
    """Return whether a function is of a module; every function is of ``""``.

    ``podclique`` names whole parts of a path, so it finds ``podclique/reconciler.py`` and
    ``github.com/ai-dynamo/grove/operator/internal/controller/podclique`` but nothing of ``podcliqueset``;
    ``podclique/reconciler`` and ``podclique/reconciler.py`` find the one file. With ``*``, ``?`` or ``[`` it is a
    shell pattern for the whole path: ``*/podclique*``.
    """
    if not module:
        return True
    if any(sign in module for sign in "*?["):
        return fnmatchcase(function.module, module)
    parts, path = _path(module), _path(function.module)
    return any(path[start : start + len(parts)] == parts for start in range(len(path) - len(parts) + 1))


def _path(module: str) -> list[str]:
    return module.removesuffix(".py").strip("/").split("/")

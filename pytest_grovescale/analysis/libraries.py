"""Code that is not the operator's own: the standard libraries of Go and Python, and libraries for operators."""

from __future__ import annotations

import re
import sys

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

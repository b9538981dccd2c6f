"""How names and templates become text in the files that are written."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import jinja2

from .custom_resources import CustomResource

_TEMPLATES = Path(__file__).parent / "templates"


def with_article(kind: str) -> str:
    """Return a kind with its article: ``an App``, ``a User``."""
    return f"{'an' if re.match(r'[AEIO]|U(?!n?i|s)', kind) else 'a'} {kind}"


def variable(resource: CustomResource) -> str:
    """Return the plural as a name of Python."""
    name = re.sub(r"\W", "_", resource.plural.lower())
    return f"{name}_" if name in ("conditions", "scale", "objects", "pytest") or not name.isidentifier() else name


def dns(kind: str) -> str:
    """Return a kind as a part of a name of Kubernetes."""
    return re.sub(r"[^a-z0-9]+", "-", kind.lower())[:40]


@functools.cache
def _environment() -> jinja2.Environment:
    # Other delimiters than those of the workload templates that are written.
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def rendered(template: str, /, **values: object) -> str:
    """Return the text of one of the templates."""
    return _environment().get_template(template).render(values)

"""Errors of reading a user's YAML, as ``file:line: what is wrong`` with what mends it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from .errors import DefinitionError

_NO_VALUE = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError)
"""Errors of the YAML library for a text that is not of its tag's type."""

_MENDED = {
    "found another document": "One file has one document: leave the line `---` out, or make two files.",
    "could not find expected ':'": "End the key with a colon, in this line or the one before it.",
    "mapping values are not allowed": "Indent the line as the others of its level, end the key before it with a colon,"
    " or quote a text that holds ': '.",
    "expected ',' or": "Close the bracket, or quote a text that begins with '[' or '{'.",
}
"""What PyYAML says → what mends it, as a rule."""


def _mended(source: str | Path, error: yaml.MarkedYAMLError) -> str:
    """Return the next step for a file that is no YAML."""
    if _begins_with_tab(source, error):
        return "Indent the line with spaces: it begins with a tab."
    quote = "Quote texts that hold ': ', ' #', '{' or start with '*', '&', '@', '%'."
    return next((step for said, step in _MENDED.items() if said in str(error.problem)), quote)


@contextlib.contextmanager
def readable(source: str | Path) -> Iterator[None]:
    """Turn every error of reading a user's YAML into a DefinitionError with ``source:line``.

    Invalid YAML, an unknown tag, a value that its tag does not allow (a 13th month), an unreadable file, a text that is
    nested too deeply.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        raise DefinitionError(f"{source}:1: cannot be read: {error}", next_step="Save it as UTF-8.") from error
    except OSError as error:
        raise DefinitionError(f"{source}:1: cannot be read: {error}") from error
    except yaml.constructor.ConstructorError as error:
        raise DefinitionError(
            f"{_marked(source, error)}: {error.problem or error.context}",
            next_step="Leave the tag out, and quote what is a text; keys are texts or numbers.",
        ) from error
    except yaml.MarkedYAMLError as error:
        raise DefinitionError(
            f"{_marked(source, error)}: not YAML: {error.problem or error.context}", next_step=_mended(source, error)
        ) from error
    except yaml.YAMLError as error:
        raise DefinitionError(f"{source}:1: not YAML: {error}") from error
    except RecursionError:
        raise DefinitionError(
            f"{source}:1: is nested too deeply, or an alias (`*name`) stands within what it names",
            next_step="Write it without that alias.",
        ) from None
    except _NO_VALUE as error:
        what = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise DefinitionError(
            f"{source}:1: holds a value that cannot be: {what}", next_step="Quote it if it is a text."
        ) from error


def _begins_with_tab(source: str | Path, error: yaml.MarkedYAMLError) -> bool:
    """Return whether the line of an error begins with a tab, as an editor may have made it."""
    if error.problem_mark is None or not Path(source).is_file():
        return False
    lines = Path(source).read_text(encoding="utf-8", errors="replace").splitlines()
    return any(re.match(r" *\t", line) for line in lines[error.problem_mark.line : error.problem_mark.line + 1])


def _marked(source: str | Path, error: yaml.MarkedYAMLError) -> str:
    """Return ``source:line`` of an error; a file that the source extends is named by its mark."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return f"{source}:1"
    # A text that is no file is marked <unicode string>.
    return f"{source if mark.name.startswith('<') else mark.name}:{mark.line + 1}"

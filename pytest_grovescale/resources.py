"""Paths of the files bundled with the package: ``fixtures/`` and ``workloads/``.

In a checkout they are beside the package; in a wheel they are inside it, under ``bundled/`` (see pyproject.toml,
force-include). Callers see no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .errors import DefinitionError
from .suggestions import near_names, with_all

_PACKAGE = Path(__file__).resolve().parent


def root() -> Path:
    """Return the folder that holds ``fixtures/`` and ``workloads/``."""
    installed = _PACKAGE / "bundled"
    return installed if installed.is_dir() else _PACKAGE.parent


Folders = Path | Sequence[Path]
"""Search folders for a user's own files: the folder of the file that names them, then others."""


def find(kind: str, name: str, *, base: Folders | None = None) -> Path:
    """Return the file that a user means by `name`.

    ``kind`` is the folder, e.g. ``fixtures/clusters`` or ``workloads``. Search order: the path as written (relative to
    ``base``, or the working folder); ``base/kind/name``, of several bases in order; the bundled ``kind/name``. A name
    without a suffix is tried with ``.yaml`` too. Raises DefinitionError with all places searched, each once.
    """
    starts = [base] if isinstance(base, Path) else list(base or [Path.cwd()])
    names = [name] if Path(name).suffix else [name, f"{name}.yaml"]
    looked: dict[Path, None] = {}
    for folder in (*(folder for start in dict.fromkeys(starts) for folder in (start, start / kind)), root() / kind):
        for candidate in names:
            path = (folder / candidate).expanduser()
            if path.is_file():
                return path.resolve()
            looked[path if len(names) == 1 else folder] = None
    # Most names are written without a suffix: the suggestion can be copied.
    short = not Path(name).suffix
    there = [p.name for folder in (*(start / kind for start in starts), root() / kind) for p in folder.glob("*.*")]
    # Beside the file that names it there are others, too: only one that is close is meant.
    beside = {p.name for path in looked for p in (path.parent.glob("*.*") if not short else ())}
    there += near_names(Path(name).name, beside)
    available = sorted({name.removesuffix(".yaml") if short else name for name in there})
    raise DefinitionError(
        f"{name}: no such file in {kind}; looked {'at' if len(names) == 1 else 'in'} {', '.join(map(str, looked))}",
        next_step=with_all(Path(name).name, available, what="Known by name"),
    )

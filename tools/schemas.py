"""``python -m tools.schemas``: writes the package's JSON Schemas from their structs."""

from __future__ import annotations

from pytest_grovescale.cli import schemas


def main() -> None:
    """Write all schemas."""
    for name, document in schemas.documents().items():
        path = schemas.path_of(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(document.schema())


if __name__ == "__main__":
    main()

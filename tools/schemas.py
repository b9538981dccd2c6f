"""``python -m tools.schemas``: writes the JSON Schemas that are shipped, from the structs they are of."""

from __future__ import annotations

from pytest_grovescale.cli import schemas


def main() -> None:
    """Write all of them."""
    for name, document in schemas.documents().items():
        path = schemas.path_of(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(document.schema())


if __name__ == "__main__":
    main()

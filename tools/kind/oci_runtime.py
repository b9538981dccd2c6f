"""An OCI runtime that calls runc without CAP_SYS_RESOURCE. It imports nothing but the standard library.

Called as runc is (by containerd's shim): before ``create`` and ``run`` it takes the capability out of the bundle's
config.json, before ``exec`` out of the process file, then it becomes runc.
https://github.com/opencontainers/runtime-spec/blob/main/config.md#linux-process
"""

from __future__ import annotations

import json
import os
import sys

WITHHELD = "CAP_SYS_RESOURCE"


def main(arguments: list[str]) -> None:
    """Remove the capability from the container's configuration, and execute runc."""
    if {"create", "run"} & set(arguments):
        rewrite(os.path.join(option(arguments, "--bundle", "-b") or ".", "config.json"), inside="process")  # noqa: PTH118
    elif "exec" in arguments and (path := option(arguments, "--process", "-p")):
        rewrite(path, inside="")
    os.execvp("runc", ["runc", *arguments])


def option(arguments: list[str], *names: str) -> str:
    """Return the value of an option, written as ``--name value`` or ``--name=value``; empty when it is not given."""
    for position, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in names:
            return value if equals else arguments[position + 1]
    return ""


def rewrite(path: str, *, inside: str) -> None:
    """Take the capability out of every set of a file; ``inside`` names the object that holds ``capabilities``."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs 10 ms, at each exec
        document = json.load(file)
    holder = document[inside] if inside else document
    sets = holder.get("capabilities") or {}
    for name, capabilities in sets.items():
        sets[name] = [capability for capability in capabilities or () if capability != WITHHELD]
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - as above
        json.dump(document, file)


if __name__ == "__main__":
    main(sys.argv[1:])

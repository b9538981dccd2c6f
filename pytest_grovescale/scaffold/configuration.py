"""Files of ConfigMaps that the operator's container mounts: a process gets them from its definition's ``files:``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from .deployment import Container, Flag, config_maps, plain, port_value, role, variables_asked, words_of
from .facts import Facts

_SETTINGS = frozenset({"config", "conf", "cfg", "configuration", "settings", "options"})
_FOLDERS = frozenset({"dir", "directory", "folder"})
_LINE = re.compile(
    r"""^(?P<head>(?P<indent>[ \t]*)["']?(?P<key>[\w.-]+)["']?\s*[:=]\s*)(?P<value>["']?[^\s"'#,{}]+["']?)"""
)
_SECTION = re.compile(r"""^([ \t]*)["']?([\w.-]+)["']?\s*:\s*\{?\s*$|^(\[)([\w.-]+)\]\s*$""")
_LEADER = ("leader", "leaderelection", "elect", "election")


class Configuration(NamedTuple):
    """Command line and environment of a program with its mounted files, and these."""

    arguments: list[str]
    env: dict[str, str]
    files: dict[str, str]
    """Name → text, as in a definition."""


def configured(
    facts: Facts,
    given: Container,
    source: str,
    flags: Mapping[str, Flag],
    arguments: Sequence[str],
    env: Mapping[str, str],
    guesses: dict[str, list[str]],
) -> Configuration:
    """Return what a program is started with where its container mounts ConfigMaps: paths are those of ``{directory}``.

    A file that neither an argument nor a variable names, but the sources do, is named by the flag whose default it is,
    or by the only variable that is called as one of settings; else a guess says what to add.
    """
    words, variables, files = list(arguments), dict(env), {}
    for path, text in mounted(facts, given).items():
        name = PurePosixPath(path).name
        here = f"{{directory}}/{name}"
        folder = str(PurePosixPath(path).parent)
        placed = {path: here, folder: "{directory}"}
        new_words = [_placed(word, placed) for word in words]
        new_variables = {key: _placed(value, placed) for key, value in variables.items()}
        is_named = (new_words, new_variables) != (words, variables)
        words, variables = new_words, new_variables
        if not is_named and path not in source and folder not in source:
            continue
        files[name] = settings(text)
        if is_named:
            answered = [f"does {one} exist here?" for one in (path, folder, f"{folder}/")]
            open_ = [guess for guess in guesses.pop("command", []) if not guess.endswith(tuple(answered))]
            guesses |= {"command": open_} if open_ else {}
            continue
        of_flag = [flag for flag, known in flags.items() if known.default in placed]
        of_variable = [asked for asked in variables_asked(source) if words_of(asked) & _SETTINGS]
        if len(of_flag) == 1:
            words.append(f"--{of_flag[0]}={placed[flags[of_flag[0]].default]}")
        elif len(of_variable) == 1:
            variables[of_variable[0]] = "{directory}" if words_of(of_variable[0]) & _FOLDERS else here
            guesses.setdefault("env", []).append(f"{of_variable[0]} names the file that is {path} in its Deployment")
        else:
            guesses.setdefault("files", []).append(
                f"in its Deployment {path} is a ConfigMap's: let a flag or a variable of the program name {here}"
            )
    return Configuration(words, variables, files)


def _placed(text: str, placed: Mapping[str, str]) -> str:
    """Return an argument or a value with the path of a mounted file, or of its folder, as it is here."""
    head, equals, value = text.rpartition("=")
    return f"{head}{equals}{placed.get(value.rstrip('/') or value, value)}"


def mounted(facts: Facts, given: Container) -> dict[str, str]:
    """Return path in the container → text of each file of a ConfigMap that it mounts and the project has."""
    maps = config_maps(facts)
    found: dict[str, str] = {}
    for mount in given.mounts:
        for key, text in maps.get(mount.config_map, {}).items():
            inside = mount.items.get(key, "" if mount.items else key)
            if inside and mount.sub_path in ("", inside):
                path = PurePosixPath(mount.path) if mount.sub_path else PurePosixPath(mount.path, inside)
                found[str(path)] = str(text)
    return found


def settings(text: str) -> str:
    """Return settings with free ports in place of those of metrics, probes and pprof, and without leader election.

    YAML, JSON, properties, INI and TOML are read line by line: a key's name and those above it say what it is for.
    """
    lines: list[str] = []
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        if section := _SECTION.match(line):
            indent = len(section[1] or "")
            above = [(depth, key) for depth, key in above if depth < indent] if section[1] is not None else []
            above.append((indent if section[1] is not None else -1, section[2] or section[4]))
            lines.append(plain(line))
            continue
        found = _LINE.match(line)
        if found is None:
            lines.append(plain(line))
            continue
        above = [(depth, key) for depth, key in above if depth < len(found["indent"])]
        value = found["value"].strip("\"'")
        own = _own_value("-".join([*(key for _, key in above), found["key"]]), value)
        quote = found["value"][0] if found["value"][0] in "\"'" else ""
        lines.append(f"{plain(found['head'])}{quote}{own}{quote}{plain(line[found.end() :])}" if own else plain(line))
    return "\n".join(lines) + "\n"


def _own_value(name: str, value: str) -> str:
    """Return the value that a setting gets here; empty for one that is left as it is."""
    if re.fullmatch(r"(?:[\w.\[\]:]*:)?\d+", value) and (found := role(name)):
        placeholder, alone = found
        return port_value(placeholder, alone, default=value)
    words = words_of(name)
    return "false" if value == "true" and words & set(_LEADER) and words <= {*_LEADER, "enable", "enabled"} else ""

"""The template of a kind's workload, as text: an object of its sample with a name and a namespace of the test's own.

What names an object of another kind, or what the operator makes by a name, differs from object to object.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import yaml

from ..operator.manifests import Object
from . import builtin_kinds, custom_resources
from .custom_resources import CustomResource, Reference, Sample
from .facts import Facts
from .program import Program
from .rbac import may_create
from .rendering import dns, rendered, with_article


def workload_template(facts: Facts, resource: CustomResource, samples: Mapping[str, Sample], found: Program) -> str:
    """Return the template of a kind; ``samples``: of all kinds with a template, as one may name objects of another."""
    sample = samples[resource.kind]
    others = {kind: str(other.object["metadata"]["name"]) for kind, other in samples.items() if kind != resource.kind}
    references = list(custom_resources.references(sample.object, others))
    named = {each.path: f"REFERENCE{index}" for index, each in enumerate(references)}
    made = _made_names(sample, may_create(facts, resource, found))
    named |= {path: f"MADE{index}" for index, path in enumerate(made)}
    obj = custom_resources.replaced(sample.object, named)
    obj = {**obj, "metadata": {**obj["metadata"], "name": "NAME", "namespace": "NAMESPACE"}}
    obj = _selecting_its_own(obj, str(sample.object["metadata"]["name"]), any_value=bool(resource.file))
    if not resource.namespaced:
        del obj["metadata"]["namespace"]
    guesses = [_of_reference(each) for each in references if not each.is_to_sample]
    if not resource.file and not others:
        guesses += _of_builtin(resource, sample, found)
    elif sample.made_from_schema:
        guesses.append(
            f"no sample of {with_article(resource.kind)} was found: this is the least that its schema allows"
        )
        if custom_resources.has_pattern(resource.schema):
            guesses.append("its schema has patterns, which these values may not match")
    if not sample.made_from_schema and not obj.get("spec") and "spec" in resource.schema.get("properties", {}):
        guesses.append(f"the sample's spec is empty: {with_article(resource.kind)} of it may have nothing to do")
    guesses += [
        f"{'.'.join(map(str, path))}: the operator may create one, so each object names its own" for path in made
    ]
    companions = [*sample.companions]
    for path, kind in _needed(sample, made):
        companion, guess = _companion(kind, path, sample.object, found.text)
        companions.append(companion)
        guesses.append(guess)
    placed = {named[each.path]: _name_of(each.kind, _parameter(each.kind)) for each in references}
    placed |= {named[path]: f"{value}-{{{{ number }}}}" for path, value in made.items()}
    return rendered(
        "workload.yaml.j2",
        plural=f"{resource.kind}s" if f"{resource.kind}s".lower() == resource.plural else resource.plural,
        source=sample.source,
        parameters=["name", *dict.fromkeys(_parameter(each.kind) for each in references)],
        guesses=guesses,
        companions=[_manifest(companion, {}, namespaced=True) for companion in companions],
        object=_manifest(obj, {"NAME": _name_of(resource.kind, "name"), **placed}, namespaced=resource.namespaced),
    )


def _selecting_its_own(obj: Object, name: str, *, any_value: bool) -> Object:
    """Return an object whose labels and selectors that have its name differ from object to object, as the name does.

    ``any_value``: so does the first label that its spec selects and gives to its own pods, whatever its value: objects
    of a sample that does so would otherwise select the pods of each other.
    """
    texts = [(path, value) for path, value in custom_resources.texts(obj) if {"labels", "matchLabels"} & {*path}]
    in_spec = [(path[-2], (path[-1], value)) for path, value in texts if path[0] == "spec" and len(path) > 2]
    selected, given = ({pair for of, pair in in_spec if of == where} for where in ("matchLabels", "labels"))
    own = sorted(selected & given, key=str)[:1] if any_value else []
    if any_value and not own:
        return obj
    paths = [path for path, value in texts if value == name or (path[-1], value) in own]
    made: Object = custom_resources.replaced(obj, dict.fromkeys(paths, "NAME"))
    return made


_NAMING = {"secretName": "secrets", "configMapName": "configmaps"}
"""Fields that name a Secret or a ConfigMap that may be the operator's output → the resource."""
_NAMES_ONE = re.compile(r"(secret|config_?map)(key)?(name|ref(erence)?)?(name)?$", re.IGNORECASE)
_KEYS_READ = re.compile(r"""(?:\.(?:String)?Data|\.data)(?:\.get\(|\[)\s*["']([\w.-]+)["']""")
"""A key of a Secret or a ConfigMap that a program reads: ``secret.Data["token"]``, ``secret.data.get("token")``."""


def _made_names(sample: Sample, created: Collection[str]) -> dict[tuple[str | int, ...], str]:
    """Return path → name of what the operator makes by a name in an object, which two objects cannot share."""
    there = {str(companion["metadata"]["name"]) for companion in sample.companions}
    return {
        path: value
        for path, value in custom_resources.texts(sample.object)
        if _NAMING.get(str(path[-1])) in created and value not in there
    }


def _needed(sample: Sample, made: Mapping[tuple[str | int, ...], str]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield path and kind of each Secret and ConfigMap that an object names, and that nothing else makes."""
    there = {(str(one["kind"]), str(one["metadata"]["name"])) for one in sample.companions}
    for path, value in custom_resources.texts(sample.object):
        # The name in a reference, not the key beside it.
        is_name = str(path[-1]).lower() not in ("key", "namespace")
        field = "".join(str(key) for key in path[-2:] if isinstance(key, str))
        found = _NAMES_ONE.search(field) if is_name and path not in made else None
        kind = ("Secret" if found[1].lower() == "secret" else "ConfigMap") if found else ""
        if kind and (kind, value) not in there:
            there.add((kind, value))
            yield path, kind


def _companion(kind: str, path: tuple[str | int, ...], obj: Object, source: str) -> tuple[Object, str]:
    """Return a Secret or a ConfigMap that an object names at a path, with the keys that are known; and the guess."""
    beside: Any = obj
    for key in path[:-1]:
        beside = beside[key]
    name = str(beside[path[-1]])
    keys = dict.fromkeys([str(beside["key"])] if "key" in beside else _KEYS_READ.findall(source))
    field = "stringData" if kind == "Secret" else "data"
    content = {field: dict.fromkeys(keys, custom_resources.PLACEHOLDER)} if keys else {}
    asked = "are these the keys that the operator reads?" if keys else "which keys does the operator read?"
    made = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **content}
    return made, f"{'.'.join(map(str, path))} names {with_article(kind)}, {name}: {asked}"


def _of_builtin(resource: CustomResource, sample: Sample, found: Program) -> Iterator[str]:
    """Yield what is to be checked of objects of Kubernetes' own: which of them the operator works on."""
    yield f"no CustomResourceDefinition was found: the operator works on {resource.plural}, as it seems"
    if not sample.made_from_schema:
        return
    if labels := builtin_kinds.named_labels(found.text):
        yield f"its sources name {', '.join(labels)}: which value of it does the operator look for?"
    if annotations := builtin_kinds.named_annotations(found.text):
        yield f"its sources name the annotation {', '.join(annotations)}: does the operator look for it?"


def _name_of(kind: str, parameter: str) -> str:
    """Return the expression of the names that the template of a kind gives its objects."""
    return f'{{{{ {parameter} | default("{dns(kind)}") }}}}-{{{{ number }}}}'


def _parameter(kind: str) -> str:
    """Return the parameter of a template for the names of another kind's objects."""
    return f"{dns(kind).replace('-', '_')}_name"


def _of_reference(found: Reference) -> str:
    """Return what is to be checked of a text that names an object of another kind, by its field."""
    file, place = f"{found.kind.lower()}.yaml.j2", ".".join(map(str, found.path))
    is_said = "" if found.value == custom_resources.PLACEHOLDER else f" is {found.value} in the sample: here it"
    return f"{place}{is_said} names {with_article(found.kind)} of {file}"


def _manifest(obj: Object, placed: Mapping[str, str], *, namespaced: bool) -> str:
    """Return an object as YAML for a template: what looks like jinja in it is kept as it is.

    ``placed``: value in the object → the expression that is written in its place.
    """
    metadata = {"name": obj["metadata"]["name"]}
    if namespaced:
        metadata["namespace"] = "NAMESPACE"
    rest = {key: value for key, value in obj["metadata"].items() if key not in metadata and key != "namespace"}
    head = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": {**metadata, **rest}}
    text = _yaml({**head, **{key: value for key, value in obj.items() if key not in head}}).rstrip("\n")
    expressions = {**placed, "NAMESPACE": "{{ namespace }}"}
    if re.search(r"\{[{%#]", text):
        text = "{% raw %}\n" + text + "\n{% endraw %}"
        expressions = {value: f"{{% endraw %}}{each}{{% raw %}}" for value, each in expressions.items()}
    for value, expression in expressions.items():
        text = re.sub(rf"(?m)(?<=[:-] ){value}$", expression.replace("\\", r"\\"), text)
    return text


def _yaml(value: Any) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110, default_flow_style=False)
    return text

"""Names, hashes, and the patches that bring a clique up to date."""

from __future__ import annotations

from typing import Any

import msgspec

from pytest_grovescale.reference_operator import naming, owned
from pytest_grovescale.reference_operator.objects import CliqueSpec, CliqueTemplate, Metadata, PodClique, SetTemplate

POD: dict[str, Any] = {"containers": [{"name": "a", "image": "i"}], "nodeSelector": {"x": "1", "y": "2"}}


def template(**spec: Any) -> CliqueTemplate:
    return CliqueTemplate(name="t", spec=CliqueSpec(**{"role_name": "r", "replicas": 2, "pod_spec": POD, **spec}))


def body(of: CliqueTemplate) -> owned.Body:
    labels = {naming.TEMPLATE_HASH: naming.pod_template_hash(of, "")}
    return owned.clique_body("c", "n", of, labels=labels, after=[], owner={"uid": "u"})


def made(of: CliqueTemplate) -> PodClique:
    return msgspec.convert(body(of), PodClique)


def apply(target: Any, patch: Any) -> Any:
    """A JSON merge patch, as RFC 7386 words it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply(result.get(key), value)
    return result


def test_names() -> None:
    assert naming.set_replica("s", 3) == "s-3"
    assert naming.clique("s", 3, "c") == "s-3-c"
    group = naming.scaling_group("s", 3, "g")
    assert naming.clique(group, 1, "c") == "s-3-g-1-c"


def test_a_hash_depends_on_the_pods_and_on_nothing_else() -> None:
    plain = naming.pod_template_hash(template(), "")
    reordered = dict(reversed(POD.items()))
    assert naming.pod_template_hash(template(pod_spec=reordered, replicas=9), "") == plain
    assert naming.pod_template_hash(template(pod_spec={**POD, "hostNetwork": True}), "") != plain
    assert naming.pod_template_hash(template(), "high") != plain


def test_what_is_as_it_should_be_needs_no_patch() -> None:
    of = template()
    assert owned.clique_patch(made(of), body(of), of, with_pods=True) is None


def test_a_pod_spec_is_replaced_as_a_whole() -> None:
    old, new = template(), template(pod_spec={"containers": POD["containers"], "nodeSelector": {"y": "3"}})
    patch = owned.clique_patch(made(old), body(new), new, with_pods=True)
    assert patch is not None
    assert apply(POD, patch["spec"]["podSpec"]) == new.spec.pod_spec
    assert patch["metadata"]["labels"][naming.TEMPLATE_HASH] == naming.pod_template_hash(new, "")


def test_without_its_turn_the_pods_stay() -> None:
    old, new = template(), template(pod_spec={"containers": []})
    assert owned.clique_patch(made(old), body(new), new, with_pods=False) is None


def test_replicas_belong_to_the_scaler_until_the_template_changes() -> None:
    old = template()
    scaled = made(old)
    scaled.spec.replicas = 5
    scaled.spec.min_available = 2
    assert (owned.clique_patch(scaled, body(old), old, with_pods=True) or {}).get("spec", {}).get("replicas") is None
    new = template(replicas=3)
    patch = owned.clique_patch(scaled, body(new), new, with_pods=True)
    assert patch is not None
    assert patch["spec"]["replicas"] == 3
    assert patch["metadata"]["annotations"][naming.TEMPLATE_REPLICAS] == "3"


def test_start_order() -> None:
    cliques = [CliqueTemplate(name="a"), CliqueTemplate(name="b", spec=CliqueSpec(starts_after=["a"]))]
    any_order = SetTemplate(cliques=cliques)
    assert owned.starts_after(any_order, cliques[1]) == []
    explicit = SetTemplate(cliques=cliques, clique_startup_type="CliqueStartupTypeExplicit")
    assert owned.starts_after(explicit, cliques[1]) == ["a"]
    in_order = SetTemplate(cliques=[CliqueTemplate(name="a"), CliqueTemplate(name="b")])
    in_order.clique_startup_type = "CliqueStartupTypeInOrder"
    assert [owned.starts_after(in_order, c) for c in in_order.cliques] == [[], ["a"]]


def test_metadata_of_owned_objects() -> None:
    assert body(template())["metadata"]["finalizers"] == [naming.CLIQUE_FINALIZER]
    assert Metadata().deletion_timestamp is None

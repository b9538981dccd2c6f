"""Credentials in the operator's log, and in objects that are no Secrets.

A log goes where many can read it: `kubectl logs`, a log store, a bug report. Reports of this program redact what looks
like a credential; here it is counted, with the lines to look at. ConfigMaps, annotations, statuses and the
variables of containers are what anyone may read who may look at the application; Secrets have rights of their own, and
can be encrypted
(https://kubernetes.io/docs/concepts/configuration/secret/#using-secrets-as-environment-variables).

No false alarm: what is redacted has the form of a credential, or stands beside a name such as ``password``; values that
say that there is none, references and names of objects are known (`redaction`). Of objects only those count that the
operator made, and statuses that it wrote; a variable that the test's own objects have was handed on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ..result import Finding
from .evidence import Life, number_of, shown
from .observed import Observed

ID = "credentials-logged"

MARK = "credentials-in-log"
"""Label of the harness's mark: its count is that of lines, its detail names the first of them, ``operator.log:12``."""
_VARIABLE = "env["
"""Beginning of the path of a container's variable (`object_changes`)."""


def findings(seen: Observed) -> Iterator[Finding]:
    """Yield a finding for lines of the log with credentials, and one for each field of objects with some."""
    for mark in seen.contents.marks:
        if mark.label == MARK:
            yield Finding(
                id=ID,
                severity="defect",
                text=f"the operator's log has {mark.count:,} line{'s' * (mark.count != 1)} with credentials",
                evidence=(mark.detail,),
            )
    fields: dict[tuple[str, str], dict[str, Life]] = defaultdict(dict)
    exposed = [
        (resource, path, life, event.at)
        for resource, lives in sorted(seen.lives.items())
        for life in lives
        for event in life.events
        for path in event.exposed
    ]
    given = {path for _, path, life, _ in exposed if path.startswith(_VARIABLE) and _made_by_test(seen, life)}
    for resource, path, life, at in exposed:
        of_operator = resource in seen.status_written if path.startswith("status") else life.made_by_operator
        if of_operator and at >= seen.begin and path not in given:
            fields[resource, path][life.uid] = life
    for (resource, path), found in fields.items():
        yield Finding(
            id=ID,
            severity="defect",
            text=f"{path} of {number_of(len(found), resource)} of the operator's holds what looks like a credential:"
            " its place is a Secret",
            evidence=(shown(next(iter(found.values())).object),),
        )


def _made_by_test(seen: Observed, life: Life) -> bool:
    return any(one.created and one.user == seen.harness for one in life.writes)

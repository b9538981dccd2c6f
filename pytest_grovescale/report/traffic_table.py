"""API traffic as tables: requests by identity and verb in each phase, the operator's per object; and faults
that a test put in their way, with what the operator did about them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ..analysis.phase_result import ApiRow, FaultsResult, PhaseResult
from ..analysis.result import TestResult
from .document import Block, Column, Gap, Heading, Item, Line, Table, Tone, cell
from .format import NONE, count, milliseconds, percent, seconds, three
from .summary import OWN_COUNT, OWN_COUNT_HOLDS

OPERATOR = "operator"

Identities = list[tuple[str, list[ApiRow]]]
"""Identity → its rows, in display order."""

_COLLECTION = "deletecollection"
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", _COLLECTION)
_SMALL = 0.01
"""Identities with less than this share of a phase's requests are summed in one row."""

_DOMINATES = 0.5
"""Share of an identity's requests with a verb from which their resource is named."""

_WORTH_NAMING = 0.05
"""Verbs with less than this share of the identity's requests are not named."""

_FEW = 10
"""Verbs with fewer requests than this are not named either."""


def traffic(phases: Sequence[PhaseResult]) -> Iterator[Block]:
    """Yield requests by phase, identity and verb; the operator's own count where there is no audit log."""
    counted = list(own_count(phases))
    if any(phase.api for phase in phases) or not counted:
        yield from _logged(phases)
    yield from counted


def own_count(phases: Sequence[PhaseResult]) -> Iterator[Block]:
    """Yield the operator's requests by its own count; nothing where no phase has it."""
    phases = [phase for phase in phases if phase.traffic_source == "metrics"]
    if not phases:
        return
    seen = {row.method for phase in phases for row in phase.client_requests}
    methods = [method for method in _METHODS if method in seen] + sorted(seen - set(_METHODS))
    rows = []
    for phase in phases:
        by_method: Counter[str] = Counter()
        for row in phase.client_requests:
            by_method[row.method] += row.count
        refused = sum(row.count for row in phase.client_requests if not row.code.startswith(("2", "1", "3")))
        numbers = (by_method.total(), *(by_method[method] for method in methods), refused)
        rows.append([phase.name, *(cell(number, count) for number in numbers)])
    yield Heading(f"Operator's requests by its own {OWN_COUNT}")
    names = ("all", *methods, "refused")
    yield Table([Column("phase"), *(Column(name, figures=True) for name in names)], rows)
    why = "; ".join(dict.fromkeys(phase.missing["audit"] for phase in phases if "audit" in phase.missing))
    yield Line(f"{why}: {OWN_COUNT_HOLDS}", "quiet")


def _logged(phases: Sequence[PhaseResult]) -> Iterator[Block]:
    if not any(phase.api for phase in phases):
        yield Gap()
        why = dict.fromkeys(phase.missing["audit"] for phase in phases if "audit" in phase.missing)
        yield Line("API requests: " + (f"not measured ({'; '.join(why)})" if why else "none"), "quiet")
        return
    verbs = [verb for verb in _verbs(row for phase in phases for row in phase.api) if verb != _COLLECTION]
    rows: list[list[str]] = []
    tones: list[Tone] = []
    for phase in phases:
        rows.append([phase.name if phase.audit_complete else f"{phase.name} (at least)", *[""] * (len(verbs) + 4)])
        tones.append("strong")
        for name, found in _by_identity(phase) or [("none", [])]:
            rows.append([f"  {name}", *_cells(found, verbs)])
            tones.append("")
    yield Heading("API requests by identity")
    columns = [Column("phase, identity"), Column("all", figures=True)]
    columns += [Column(verb, figures=True) for verb in verbs]
    columns += [Column(name, figures=True) for name in ("other", "refused", "p99")]
    yield Table(columns, rows, tones=tones)
    for phase in phases:
        for line in dominating(phase):
            yield Line(f"{phase.name}, {line}", "quiet")
    for phase in phases:
        if not phase.audit_complete:
            yield Item(f"{phase.name}: {phase.missing.get('audit', '')}", "doubt")
    yield Line(
        "delete: collections too; other: Leases, Events, reviews, dry runs, non-resource; p99: slowest",
        "quiet",
    )


def dominating(phase: PhaseResult) -> Iterator[str]:
    """Yield by identity the resource of most requests with a verb: ``operator: create pods 79 %``.

    Identities that the table sums are left out, and verbs that are a small part of an identity's requests.
    """
    for name, rows in _shown(phase)[0]:
        by_verb = _by_verb(rows)
        parts = []
        for verb in _verbs(rows):
            of_verb = [row for row in rows if row.verb == verb and _of_object(row)]
            if by_verb[verb] < max(_FEW, _WORTH_NAMING * by_verb.total()) or not of_verb:
                continue
            resource, most = _largest(of_verb)
            if most >= _DOMINATES * by_verb[verb]:
                parts.append(f"{verb} {resource} {percent(most / by_verb[verb])}")
        if parts:
            yield f"{name}: {', '.join(parts)}"


def _largest(rows: Iterable[ApiRow]) -> tuple[str, int]:
    """Return the resource with most requests, without its API group, and their number."""
    found: Counter[str] = Counter()
    for row in rows:
        found[row.resource] += row.count
    resource, most = found.most_common(1)[0]
    kind, _, subresource = resource.partition("/")
    return "/".join(part for part in (kind.partition(".")[0], subresource) if part), most


def per_object(test: TestResult) -> Iterator[Block]:
    """Yield the operator's requests by verb per object, in every phase."""
    phases = [phase for phase in test.phases if phase.audit_complete and _rows_of(phase, OPERATOR)]
    if not phases or not test.objects:
        return
    verbs = _verbs(row for phase in phases for row in _rows_of(phase, OPERATOR))
    rows = []
    for phase in phases:
        by_verb = _by_verb(_rows_of(phase, OPERATOR))
        rows.append([phase.name, *(cell(by_verb[verb] / test.objects, three) for verb in verbs)])
    kind = test.objects_resource.partition(".")[0]
    yield Heading(f"Operator's requests for each of {count(test.objects)} {kind}")
    yield Table([Column("phase"), *(Column(verb, figures=True) for verb in verbs)], rows)


def _rows_of(phase: PhaseResult, identity: str) -> list[ApiRow]:
    return [row for row in phase.api if row.identity == identity]


def _by_identity(phase: PhaseResult) -> Identities:
    """Return (identity, rows), the operator first, then by requests; small ones together at the end."""
    shown, small = _shown(phase)
    if small:
        shown.append((f"{len(small)} others", [row for _, rows in small for row in rows]))
    return shown


def _shown(phase: PhaseResult) -> tuple[Identities, Identities]:
    """Return the identities with a row of their own, and those that are summed."""
    found: dict[str, list[ApiRow]] = defaultdict(list)
    for row in phase.api:
        found[row.identity].append(row)
    total = sum(row.count for row in phase.api)
    size = {name: sum(row.count for row in rows) for name, rows in found.items()}
    ordered = sorted(found, key=lambda name: (name != OPERATOR, -size[name], name))
    small = [name for name in ordered if name != OPERATOR and size[name] < _SMALL * total]
    if len(small) < 2:
        small = []
    return [(name, found[name]) for name in ordered if name not in small], [(name, found[name]) for name in small]


def _cells(rows: Sequence[ApiRow], verbs: Sequence[str]) -> list[str]:
    by_verb = _by_verb(rows)
    # One column less, and the table fits; the operator's are separate below.
    by_verb["delete"] += by_verb.pop(_COLLECTION, 0)
    total = sum(row.count for row in rows)
    return [
        count(total),
        *(count(by_verb[verb]) if by_verb[verb] else NONE for verb in verbs),
        *(count(n) if n else NONE for n in (total - by_verb.total(),)),
        count(sum(row.count for row in rows if row.code >= 400)),
        milliseconds(_slowest_p99(rows)) if rows else NONE,
    ]


def _slowest_p99(rows: Iterable[ApiRow]) -> float:
    """Return the largest p99 of any kind of request but watches (theirs is the wait for the first event)."""
    return max((row.p99_ms for row in rows if row.verb != "watch"), default=0.0)


def _by_verb(rows: Iterable[ApiRow]) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        if _of_object(row):
            found[row.verb] += row.count
    return found


def _of_object(row: ApiRow) -> bool:
    return row.category == "object" and not row.dry_run


def _verbs(rows: Iterable[ApiRow]) -> list[str]:
    seen = {row.verb for row in rows if _of_object(row)}
    if _COLLECTION in seen:
        seen.add("delete")
    return [verb for verb in _VERBS if verb in seen] + sorted(seen - set(_VERBS))


_REACTIONS = ("phase", "made again", "delay", "longest", "Retry-After kept", "watches reopened", "recovered after")

_KINDS_SHOWN = 4


def faults(phases: Sequence[PhaseResult]) -> Iterator[Block]:
    """Yield the faults of each phase and what followed; nothing where none were in force."""
    met = _fault_rows(phases)
    if not any(phase.faults for phase in phases):
        return
    yield Heading("API faults")
    if met:
        columns = [Column("phase"), Column("fault"), Column("number", figures=True), Column("met by", wraps=True)]
        yield Table(columns, met)
    yield Table(
        [Column(name, figures=index > 0) for index, name in enumerate(_REACTIONS)],
        [[phase.name, *_reaction(phase.faults)] for phase in phases if phase.faults is not None],
    )
    for line in _settings(phases):
        yield Item(line, "quiet")


def line(phases: Sequence[PhaseResult]) -> str:
    """Return in one line how many faults there were, and how fast the operator recovered; empty without any."""
    parts = []
    for phase in phases:
        if phase.faults is not None and phase.faults.total:
            recovered = phase.faults.recovery_s
            after = f", recovered after {seconds(recovered)}" if recovered is not None else ""
            parts.append(f"{count(phase.faults.total)} in {phase.name}{after}")
    return f"API faults: {'; '.join(parts)}" if parts else ""


def _fault_rows(phases: Sequence[PhaseResult]) -> list[list[str]]:
    """Return a row for each kind of fault in each phase."""
    found = []
    for phase in phases:
        by_kind: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for row in phase.faults.rows if phase.faults is not None else ():
            by_kind[row.kind].append((row.count, f"{row.verb} {row.resource}"))
        for kind, members in by_kind.items():
            members.sort(reverse=True)
            shown = [f"{count(number)} {what}" for number, what in members[:_KINDS_SHOWN]]
            more = [f"{len(members) - len(shown)} more kinds"] if len(members) > len(shown) else []
            number = cell(sum(number for number, _ in members), count)
            found.append([phase.name, kind, number, ", ".join(shown + more)])
    return found


def _reaction(one: FaultsResult) -> list[str]:
    made_again = NONE
    if one.repeated is not None and one.not_repeated is not None and one.repeated + one.not_repeated:
        made_again = f"{count(one.repeated)} of {count(one.repeated + one.not_repeated)}"
    return [
        made_again,
        cell(one.delay_p50_s, seconds),
        cell(one.delay_max_s, seconds),
        NONE if one.waits_ignored is None else _share(one.waits_asked - one.waits_ignored, one.waits_asked),
        NONE if one.watches_reopened is None else _share(one.watches_reopened, one.watches_cut),
        cell(one.recovery_s, seconds),
    ]


def _share(part: int, whole: int) -> str:
    return f"{count(part)} of {count(whole)}" if whole else NONE


def _settings(phases: Sequence[PhaseResult]) -> Iterator[str]:
    """Yield what was in force in each phase."""
    for phase in phases:
        if phase.faults is not None:
            part = "" if phase.faults.seconds > 0.99 * phase.seconds else f", for {seconds(phase.faults.seconds)} of it"
            yield f"{phase.name}: {'; then '.join(phase.faults.settings)}{part}"

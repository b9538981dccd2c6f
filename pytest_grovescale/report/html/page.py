"""A run, a comparison or a sweep as one HTML page: structs in, text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ...analysis.comparability import InForce
from ...analysis.comparison_plan import overall
from ...analysis.history import History
from ...analysis.phase_result import FunctionRow
from ...analysis.profiles.comparison import NotProfiled
from ...analysis.result import CheckResult, Result, TestResult
from ...analysis.scaling import Sweep
from ...analysis.timeline import Timeline
from .. import comparison_table, history_table
from ..checks_table import by_verdict
from ..function_table import not_profiled
from . import history, scaling, templates
from .profiles import Flame, ProfilePair, pair_data, profile_data
from .templates import colours_of, csp_hash, environment, json_block, reach_of
from .tiles import Against

if TYPE_CHECKING:
    from ...analysis.comparison import Comparison


class RunLink(msgspec.Struct, frozen=True, kw_only=True):
    """One finished run."""

    page: str = ""
    """Its page as seen from the comparison's; empty where there is none."""
    broken: str = ""
    """Why its variant is broken in it; empty where it is not."""


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """The two runs of a pair, or of several pairs that are of the same two."""

    part: str
    pairs: str
    """``3``, ``1 to 16``."""
    a: RunLink | None
    """None: not run yet."""
    b: RunLink | None


class ShownRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of one variant that the page shows over time."""

    variant: str
    what: str
    """Description of the run."""
    test: TestResult
    timeline: Timeline
    page: str = ""
    """As of `RunLink`."""


class Background(msgspec.Struct, frozen=True, kw_only=True):
    """Everything on a comparison's page beside the figures."""

    profiles: tuple[ProfilePair, ...] = ()
    not_profiled: tuple[NotProfiled, ...] = ()
    in_force: InForce = InForce()
    runs: tuple[RunRow, ...] = ()
    shown: tuple[ShownRun, ...] = ()
    not_shown: tuple[str, ...] = ()
    """Why a variant's run is not shown."""


NO_BACKGROUND = Background()


def render_run(
    result: Result,
    *,
    timelines: Mapping[str, Timeline] | None = None,
    flames: Mapping[str, Flame] | None = None,
    functions: Mapping[str, Sequence[FunctionRow]] | None = None,
    baselines: Mapping[str, Against] | None = None,
    folder: str = "",
) -> str:
    """Return a run's page.

    ``timelines``: by `TestResult.recording`; ``flames`` and ``functions`` (whole function tables): by
    `ProfileResult.file`; missing ones are left out. ``baselines``: the figures to compare a test with, by
    `TestResult.test`. ``folder``: the run's folder as seen from the page, for links; empty for the page's own.
    """
    shown = [(timelines or {}).get(test.recording) for test in result.tests]
    colours = colours_of(zip(result.tests, shown, strict=True))
    drawn, rows = flames or {}, functions or {}
    data = [
        {
            "timeline": timeline,
            "colours": colours,
            "profiles": [
                profile_data(phase, profile, drawn.get(profile.file), folder, rows.get(profile.file, ()))
                for phase in test.phases
                for profile in phase.profiles
            ],
        }
        for test, timeline in zip(result.tests, shown, strict=True)
    ]
    return _page(
        "run.html",
        data,
        title=f"Scale test {result.run}",
        result=result,
        timelines=shown,
        baselines=baselines or {},
        colours=colours,
        folder=folder,
    )


def render_comparison(comparisons: Sequence[Comparison], background: Background = NO_BACKGROUND) -> str:
    """Return the page of one comparison, or of its parts (no-op, deploy and delete) together; at least one."""
    plan, in_force = comparisons[0].plan, background.in_force
    facts = {name: text for comparison in comparisons for name, text in comparison.facts.items()}
    profiles = [pair_data(pair, (plan.a, plan.b)) for pair in background.profiles]
    colours = colours_of((run.test, run.timeline) for run in background.shown)
    return _page(
        "comparison.html",
        [
            {"timeline": None, "profiles": profiles},
            *({"timeline": _over_time(run), "colours": colours, "profiles": []} for run in background.shown),
        ],
        title=f"{plan.b} compared with {plan.a}",
        comparisons=comparisons,
        verdict=overall(comparisons),
        answer_line=comparison_table.answer(comparisons),
        sections=[
            (section, reach_of(row.metric for row in section.rows))
            for section in comparison_table.sections(comparisons)
        ],
        warnings=list(dict.fromkeys(warning for comparison in comparisons for warning in comparison.warnings)),
        facts={name: text for name, text in facts.items() if name not in in_force.shared | in_force.differing},
        colours=colours,
        background=background,
        not_profiled=[not_profiled(one) for one in background.not_profiled],
    )


def _over_time(run: ShownRun) -> Timeline:
    """Return a run's timeline without the metrics endpoints' curves, which the run's own page has."""
    return msgspec.structs.replace(run.timeline, metrics=())


def render_sweep(sweep: Sweep, checks: Sequence[CheckResult] = (), *, folder: str = "") -> str:
    """Return the page of a sweep: its exponents, and log-log charts of the fitted points.

    ``folder``: the sweep's folder as seen from the page, for links; empty for the page's own.
    """
    charts = scaling.charts(sweep)
    return _page(
        "sweep.html",
        [{"scaling": scaling.chart_data(sweep) if charts else None}],
        title=f"Growth with {sweep.parameter}",
        sweep=sweep,
        checks=by_verdict(checks),
        verdict=scaling.verdict(checks),
        lines=list(scaling.lines(sweep, checks)),
        rows=scaling.rows(sweep),
        charts=charts,
        without=scaling.without_exponent(sweep),
        runs=sorted(sweep.runs, key=lambda run: run.size),
        sizes=[f"{size:g}" for size in sorted({run.size for run in sweep.runs})],
        decimal=scaling.decimal,
        folder=folder,
    )


def render_history(found: History) -> str:
    """Return the page of a history: a chart for each figure, with its changes of level."""
    return _page(
        "history.html",
        [],
        title="History of figures",
        history=found,
        answer=history_table.answer(found),
        facts=history_table.facts,
        charts=history.charts(found),
        width=history.WIDTH,
        height=history.HEIGHT,
    )


def _page(template: str, data: Sequence[Mapping[str, Any]], **content: Any) -> str:
    """Render a page with the libraries that its data needs. The policy allows only these scripts, by their hashes."""
    scripts = templates.scripts(
        charts=any(part.get("timeline") or part.get("scaling") for part in data),
        flames=any(part.get("profiles") for part in data),
    )
    page = environment().get_template(template)
    return page.render(
        data=[json_block(part) for part in data],
        scripts=scripts,
        styles=templates.styles(),
        script_sources=" ".join(csp_hash(script) for script in scripts),
        **content,
    )

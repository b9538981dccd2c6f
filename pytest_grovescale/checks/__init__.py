"""Checks: what a test is held to. A run in, a verdict with its evidence out.

``from pytest_grovescale import checks``, then ``checks.NoopWrites(max=0)``. To add a check, write a subclass of
`check.Check` in the module of its concept and import it here, which registers it.
"""

from .api_requests import ApiRequests as ApiRequests
from .cpu_memory import Cpu as Cpu
from .cpu_memory import Rss as Rss
from .grep498 import Grep498 as Grep498
from .idle import IdleCpu as IdleCpu
from .idle import IdleRequests as IdleRequests
from .metrics.blocked_workers import NoBlockedWorkers as NoBlockedWorkers
from .metrics.buckets import HistogramBuckets as HistogramBuckets
from .metrics.builtin_duplicates import NoBuiltinDuplicates as NoBuiltinDuplicates
from .metrics.counter_resets import CounterResets as CounterResets
from .metrics.error_rates import ConflictRate as ConflictRate
from .metrics.error_rates import ErrorRatio as ErrorRatio
from .metrics.function_names import FunctionNameLabels as FunctionNameLabels
from .metrics.invariant import Invariant as Invariant
from .metrics.labels import Labels as Labels
from .metrics.names import MetricNames as MetricNames
from .metrics.no_test_leakage import NoTestLeakage as NoTestLeakage
from .metrics.preinitialized_series import PreinitializedSeries as PreinitializedSeries
from .metrics.series import Series as Series
from .metrics.series import SeriesGrowth as SeriesGrowth
from .milestone import Milestone as Milestone
from .noop import NoopCpu as NoopCpu
from .noop import NoopReads as NoopReads
from .noop import NoopReconciles as NoopReconciles
from .noop import NoopWrites as NoopWrites
from .reconciles import HotLoop as HotLoop
from .reconciles import Reconciles as Reconciles
from .regression import Regression as Regression
from .scaling import Scales as Scales
from .simulated_nodes import SimulatedNodesOnly as SimulatedNodesOnly

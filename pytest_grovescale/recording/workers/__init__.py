"""Activity of an operator's workers, from its own metrics and its CPU clock: at each scrape, and over several.

The metrics are those of controller-runtime (``controller_runtime_active_workers``, ``…_max_concurrent_reconciles``) and
of client-go's work queues (``workqueue_*``). An operator that serves only the queues' metrics is judged by these: keys
wait in a queue only while every worker is busy.

The recorder uses this during scrapes, the analysis afterwards; both give the same result.
"""

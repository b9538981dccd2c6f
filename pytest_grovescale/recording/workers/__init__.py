"""What an operator's workers do, by its own metrics and its CPU clock: at each scrape, and over windows of several.

The metrics are those of controller-runtime (``controller_runtime_active_workers``, ``…_max_concurrent_reconciles``) and
of client-go's work queues (``workqueue_*``). An operator that serves only the queues' is judged by these: keys wait in
a queue only while every worker is taken.

The recorder uses this as scrapes come in, and the analysis when they have all come: both say the same.
"""

"""Live statistics: a Prometheus of the run's own or the cluster's, asked in PromQL while a test runs."""

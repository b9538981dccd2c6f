"""Live statistics: PromQL queries to a Prometheus of the run or of the cluster while a test runs."""

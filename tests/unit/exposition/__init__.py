"""Tests of the exposition room; a package, so that they share samples and what prometheus_client says of them."""

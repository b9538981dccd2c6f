"""Tests of the report room; a package, so that they share the sample result."""

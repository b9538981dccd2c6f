"""Tests of the analysis room; a package, so that they share the simulated recording."""

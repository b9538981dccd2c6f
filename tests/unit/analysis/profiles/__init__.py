"""Tests of profiles; a package, so that they share the recorded files."""

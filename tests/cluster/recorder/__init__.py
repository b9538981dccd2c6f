"""Tests of the recorder on a real control plane; a package, so that they share their plane."""

"""Profiles of a phase: py-spy and Go's pprof, attached at its begin, stopped at its end."""

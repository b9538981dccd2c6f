"""Profiles of a phase as they are taken: py-spy and Go's pprof attached at its begin, stopped at its end."""

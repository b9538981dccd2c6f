"""Profiles by py-spy and Go's pprof: as stacks, function tables and differences."""

"""Profiles: what py-spy and Go's pprof wrote, as stacks, function tables and differences."""

"""The figures in docs/evidence.md: ``make bench``. Ratios within one run, since absolute times drift."""

"""The figures in the README: ``make bench``. Ratios within one run, since absolute times drift."""

"""The figures that README shows: ``make bench``. Ratios within one run, since absolute times drift."""

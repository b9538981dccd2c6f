"""The HTML report: one file that opens from disk, with all its data, scripts and styles in it."""

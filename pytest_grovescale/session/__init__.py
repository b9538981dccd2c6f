"""Parts of one pytest session's run: folder, clusters, operator, recordings, turns; ``runs.py`` puts them together."""

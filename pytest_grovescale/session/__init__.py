"""Parts of one pytest session's run: folder, clusters, operator, recordings, locks; ``runs.py`` combines them."""

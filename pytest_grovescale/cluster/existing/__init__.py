"""A cluster that somebody else made and others may use: only what is ours is touched, and all of it goes at the end."""

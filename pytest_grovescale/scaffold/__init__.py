"""The first scale test of an operator's project: what is in its folder, the files that fit, what the machine lacks."""

"""On a cluster that was there before; a package, so that its control planes end with the last of its tests."""

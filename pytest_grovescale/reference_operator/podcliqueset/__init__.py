"""The controller of PodCliqueSets: all that a set owns, as components in dependency order."""

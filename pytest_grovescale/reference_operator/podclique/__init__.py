"""The controller of PodCliques: groups of identical pods."""

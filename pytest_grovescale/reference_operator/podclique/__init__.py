"""The controller of PodCliques: pods that are alike."""

"""Backend ``existing``: a cluster not created by grovescale. It changes only its own objects and removes them all."""

"""Backend ``kind``: a control plane in a container on this machine, created or joined; its nodes are simulated."""

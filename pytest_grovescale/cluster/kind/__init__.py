"""A control plane in a container of this machine, made or joined with kind; its nodes simulated as elsewhere."""

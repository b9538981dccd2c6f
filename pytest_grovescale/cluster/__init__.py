"""Gets a Kubernetes API with simulated nodes: finds or makes the binaries, runs them, and says who may use them."""

"""A container engine, kind and images, also without access to a registry: the base of ``make test-kind``."""

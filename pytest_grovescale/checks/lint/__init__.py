"""Rules that a metrics endpoint can be held to by what it serves at one moment, without a cluster or a history."""

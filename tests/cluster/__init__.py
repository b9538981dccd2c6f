"""Tests on real control planes; a package, so that the one that most of them share ends with the last of them."""

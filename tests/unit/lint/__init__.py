"""Tests of the rules for a metrics endpoint at one moment, and of the command that holds one to them."""

"""Phases, milestones and actions: what a scale test is written in."""

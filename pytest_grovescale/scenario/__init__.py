"""Phases, milestones and actions: the building blocks of a scale test."""

"""Metrics expositions: readers for all formats, and one data structure for their contents."""

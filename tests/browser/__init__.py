"""Tests of the HTML report in a real browser."""

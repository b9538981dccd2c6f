"""Shared by all tests: pytester, and a clean environment for whatever a test starts."""

from __future__ import annotations

pytest_plugins = ["pytester"]

"""Git repositories for tests, whoever runs them and whatever their own configuration says."""

from __future__ import annotations

import subprocess
from pathlib import Path

_IDENTITY = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]


def git(top: Path, *arguments: str) -> str:
    """Run git in a repository and return what it prints."""
    command = ["git", "-C", str(top), *_IDENTITY, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def repository(top: Path) -> Path:
    """Make a folder an empty repository; return it."""
    git(top, "init", "--quiet")
    return top


def committed(top: Path, tag: str) -> None:
    """Commit everything in the folder, and give the commit a tag."""
    git(top, "add", "--all")
    git(top, "commit", "--quiet", "-m", tag)
    git(top, "tag", tag)

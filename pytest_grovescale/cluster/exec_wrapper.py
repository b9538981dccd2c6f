"""Sets process limits, then execs another program. Run by path: ``python -I -S exec_wrapper.py OPTIONS ARGV…``.

Limits that must be set in the child between fork and exec are set here, in a process of its own: a preexec function
would run Python code in a forked copy of the supervisor. Imports nothing of the package; costs 20 ms.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_PTRACER = 0x59616D61
_PR_SET_PTRACER_ANY = -1


def main() -> None:
    options, argv = json.loads(sys.argv[1]), sys.argv[2:]
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    # Fires when the thread that forked us ends: the supervisor forks from its main thread only.
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != options["parent"]:
        # The supervisor died before the line above took effect.
        sys.exit(1)
    # Allows py-spy to attach under Yama scope 1; fails where there is no Yama, and is not needed there.
    prctl(_PR_SET_PTRACER, ctypes.c_ulong(_PR_SET_PTRACER_ANY), 0, 0, 0)
    if options["cores"]:
        os.sched_setaffinity(0, options["cores"])
    if options["data_bytes"]:
        resource.setrlimit(resource.RLIMIT_DATA, (options["data_bytes"], options["data_bytes"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # Python ignores SIGPIPE at startup, and an exec would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, os.environ)
    except OSError as error:
        sys.stderr.write(f"cannot run {argv[0]}: {error.strerror}\n")
        sys.exit(127)


if __name__ == "__main__":
    main()

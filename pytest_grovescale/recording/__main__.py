"""``python -m pytest_grovescale.recording``: the recorder process. Started by ``recorder.Recorder``."""

import sys

from .process import main

sys.exit(main(sys.argv[1:]))

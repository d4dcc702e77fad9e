"""Settings that hold for every test: no network, one thread, nothing taken from a user's cache."""

import os

from hypothesis import settings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# The models are so small that a second thread only waits for the first; beside another process it stalls both.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No time limit per example: the machine may be busy. In CI the examples are the same each time, so that a run that
# fails can be repeated; elsewhere they are new each time, which is how faults are found.
settings.register_profile("busy", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("busy")

"""Settings that hold for every test: no network, one thread, nothing taken from a user's cache."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# The models are so small that a second thread only waits for the first; beside another process it stalls both.
os.environ.setdefault("OMP_NUM_THREADS", "1")

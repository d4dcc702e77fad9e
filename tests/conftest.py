"""Settings that hold for every test: no network, two threads at most, nothing taken from a user's cache."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

"""Everything the demo needs without a network: an instruction dataset with planted faults, and a tiny model."""

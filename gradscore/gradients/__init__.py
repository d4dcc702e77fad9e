"""Per-sample gradients of the counted parameters, by three engines behind one interface."""

"""Load the model, attach an adapter, warm it up, keep and switch views."""

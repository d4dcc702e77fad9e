"""GSNR and the other numbers, from the gradients of one row under all views."""

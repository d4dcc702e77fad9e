"""Tests of gradscore.report."""

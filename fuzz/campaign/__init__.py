"""Fuzzing campaigns: engines side by side on one corpus, and what becomes of what they find. Entry: fuzz/run.py."""

"""Modules of run.py and gateway.py."""

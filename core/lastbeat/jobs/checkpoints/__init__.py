"""Finds the checkpoints of a run, separates complete ones from half-written ones, and chooses one.

Nothing here unpickles or changes anything: names, sizes, times, JSON, the directory of a zip file and the header of a
safetensors file are all that is read.
"""

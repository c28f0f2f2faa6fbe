"""Checkpoints of a training: finding them, telling complete ones from half-written ones, choosing one.

Nothing here unpickles or changes anything: names, sizes, times, JSON, the directory of a zip file and the header of a
safetensors file are all that is read.
"""

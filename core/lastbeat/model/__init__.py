"""The vocabulary: frozen data, no I/O, no clock.

The large classes have no slots: those would make each class twice, and every ``--once`` pays for it at its start.
"""

"""The vocabulary: frozen data, no I/O, no clock.

The large classes have no slots: ``slots=True`` creates each class twice, a cost at the start of every ``--once``.
"""

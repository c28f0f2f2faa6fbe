"""The vocabulary: frozen data, no I/O, no clock."""

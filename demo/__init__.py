"""``make demo``: three small training runs, watched as yours would be."""

"""Terminal output: colours and widths, keys, full screens, curves."""

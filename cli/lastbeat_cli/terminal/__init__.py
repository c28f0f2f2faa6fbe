"""Drawing on terminals: colours and widths, keys, whole screens, curves."""

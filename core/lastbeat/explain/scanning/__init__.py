"""Text → the lines that match a signal: lines, prefixes, patterns, and ways to skip most of the text."""

"""Text → which lines mean something: lines, prefixes, patterns, and how to skip most of it."""

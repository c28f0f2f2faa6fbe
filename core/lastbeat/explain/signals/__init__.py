"""From log text to a cause and to what people can do about it."""

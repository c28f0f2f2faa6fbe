"""The web page: put together from its parts, served, or written beside the runs."""

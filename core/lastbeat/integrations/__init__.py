"""Callbacks for training frameworks, one module a framework; each imports its framework, and nothing imports them."""

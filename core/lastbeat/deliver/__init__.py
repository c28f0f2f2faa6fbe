"""Telling people: the outbox, the message, one module a channel."""

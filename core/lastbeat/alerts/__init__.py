"""Sends alerts: the outbox, the message, and one module for each channel."""

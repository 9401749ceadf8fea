"""The HTTP API. It parses, calls the verbs of an app through a console, and renders; it decides nothing."""

from mulligan.web.server import asgi

__all__ = ["asgi"]

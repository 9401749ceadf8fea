"""A client of the HTTP API, with the verbs of App: `Client("https://jobs.example.org", key=…)`."""

from mulligan.client.client import Client

__all__ = ["Client"]

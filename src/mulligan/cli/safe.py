"""Text of others on the terminal: the words of `mulligan.safe`, where the commands look for them."""

from mulligan.safe import safe, safe_lines

__all__ = ["safe", "safe_lines"]

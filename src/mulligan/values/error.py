"""The root of all errors. It is the lowest layer, so that the errors of durations and sizes can derive from it too."""


class MulliganError(Exception):
    """The root of the tree: catch it to catch everything that mulligan itself raises."""

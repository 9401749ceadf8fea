"""The root of all errors, below everything: so that what a duration raises can be one of them too."""


class MulliganError(Exception):
    """The root: catch it to catch all that mulligan itself raises."""

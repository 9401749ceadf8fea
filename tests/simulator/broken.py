"""A promise that was not kept."""


class Broken(Exception):
    """What was seen, in a sentence."""


def require(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise Broken(otherwise)

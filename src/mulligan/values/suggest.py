"""Suggestions for unknown names."""

from collections.abc import Iterable

# High enough to leave out names that only begin alike.
_LIKENESS = 0.7
_LONGEST = 100
# A list up to the first length is shown whole; of a longer one, as many names as the second.
_LISTED_WHOLE = 20
_LISTED = 10


def nearest(name: object, known: Iterable[str]) -> str | None:
    """The most similar known name, if one is similar enough."""
    # Imported late: most programs never need it.
    from difflib import get_close_matches

    if not isinstance(name, str) or len(name) > _LONGEST:
        return None
    by_form = {_form(one): one for one in known}
    found = get_close_matches(_form(name), by_form, 1, _LIKENESS)
    return by_form[found[0]] if found else None


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """`did you mean 'backoff'? `, to be followed by the known names; empty if none is similar."""
    near = nearest(name, known)
    return f"did you mean {near!r}? " if near else ""


def unknown(what: str, name: object, known: Iterable[str]) -> str:
    """`no queue is named 'bluk'; did you mean 'bulk'? known are: 'bulk', 'default'`."""
    names = sorted(known)
    is_long = len(names) > _LISTED_WHOLE
    listed = ", ".join(map(repr, names[:_LISTED] if is_long else names)) + ", …" * is_long
    return f"no {what} is named {name!r:.300}; {did_you_mean(name, names)}known are: {listed or 'none'}"


def _form(name: str) -> str:
    return name.casefold().replace("_", "")

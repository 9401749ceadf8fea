"""What somebody meant who gave a name that nobody knows."""

from collections.abc import Iterable

# Nearer than a word that only begins alike.
_LIKENESS = 0.7
_LONGEST = 100


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """`did you mean 'backoff'? `, to stand before what is known; empty when nothing is near."""
    # Most programs never need it.
    from difflib import get_close_matches

    if not isinstance(name, str) or len(name) > _LONGEST:
        return ""
    by_form = {one.casefold().replace("_", ""): one for one in known}
    found = get_close_matches(name.casefold().replace("_", ""), by_form, 1, _LIKENESS)
    return f"did you mean {by_form[found[0]]!r}? " if found else ""

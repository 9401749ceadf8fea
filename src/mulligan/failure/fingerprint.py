"""Groups equal failures by a fingerprint of the message without its variable parts."""

import re
from functools import lru_cache
from hashlib import blake2b

# The masks read this many characters of a message, half from each end.
_READ = 4_000
# An outage repeats one message for each job. Longer messages are not kept.
_KEPT = 500

# Listed here because the library's wording changes: groups must not depend on the Python version.
_PHRASES = r"""
    Bad\ Request|Unauthorized|Payment\ Required|Forbidden|Not\ Found|Method\ Not\ Allowed|Not\ Acceptable
    |Proxy\ Authentication|Request\ Time|Conflict|Gone|Length\ Required|Precondition|Payload\ Too|Content\ Too
    |Request\ Entity|URI\ Too|Unsupported\ Media|Expectation\ Failed|Unprocessable|Locked|Too\ Many\ Requests
    |Internal\ Server|Not\ Implemented|Bad\ Gateway|Service\ Unavailable|Gateway\ Time|Insufficient\ Storage
"""

# Numbers that distinguish failures.
_CODES = rf"""
      (?i:\b(?:HTTP(?:/\d(?:\.\d)?)?|status(?:[ _-]?code)?|errno|winerror|sqlstate|(?:error[ _]?)?code|error
       |exit(?:[ _]?(?:status|code))?|return[ _]?code|signal)) [ :=#]{{0,3}} -?\d{{1,5}} (?!\w|[.,]\d)
    | \b[1-5]\d\d (?=\ (?:(?:Client|Server)\ Error|{_PHRASES})\b)
"""

# One alternation, tried in this order at every position, so that distinguishing numbers are kept before anything is
# masked. Every part that can be rescanned from each position is bounded, so no message takes long. No mask is longer
# than the shortest string it replaces.
_MASKS = re.compile(
    rf"""
      (?P<code> {_CODES} )
    | (?P<url>    \b(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{{1,20}})://(?P<place>[^\s/?'"]{{1,300}})(?P<rest>[^\s'"]*) )
    | (?P<quoted> (?<!\w)(?: '\[[^\]\n]{{0,1000}}\]' | '[^'\n]{{1,1000}}'(?!\w)
                           | "[^"\n]{{1,1000}}" | `[^`\n]{{1,1000}}` | “[^”\n]{{1,1000}}” ) )
    | (?P<email>  [\w.+-]{{1,64}}@[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{1,8}} )
    | (?P<time>   \b\d{{4}}-\d\d-\d\d(?:[T\ ]\d\d:\d\d(?::\d\d(?:[.,]\d{{1,9}})?)?(?:Z\b|[+-]\d\d:?\d\d)?)?
                | \b\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})? )
    | (?P<id>     \b[0-9a-fA-F]{{8}}(?:-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}\b
                | \b0x[0-9a-fA-F]+ | \b(?=[a-fA-F]*\d)[0-9a-fA-F]{{7,}}\b | \b(?=(?:[A-Za-z_]*\d){{3}})\w{{12,}} )
    | (?P<ip>     \b\d{{1,3}}(?:\.\d{{1,3}}){{3}}\b
                | \[?\b[0-9a-fA-F]{{1,4}}(?::[0-9a-fA-F]{{0,4}}){{3,7}}(?![\w:])\]? )
    | (?P<path>   (?<![\w/.~\\])(?:~|\.{{1,2}})?/[^\s'"`:;,()<>\[\]]+ | \b[A-Za-z]:\\[^\s'"`:;,()<>\[\]]+ )
    | (?P<number> \d+(?:[.,]\d+)* )
    """,
    re.VERBOSE,
)
_MASK = {"email": "…@…", "time": "<time>", "id": "#", "ip": "<ip>", "path": "/…", "number": "#"}
_CODE_INSIDE = re.compile(_CODES, re.VERBOSE)
_IN_PLACE = re.compile(r"(?P<ip>\d{1,3}(?:\.\d{1,3}){3})|(?P<number>\d+)")


def fingerprint(type: str, message: str, *codes: int | None, kind: str = "") -> str:  # noqa: A002
    """Twelve hex digits, the same whenever this kind of job fails in this way.

    `codes` are numbers that distinguish failures: HTTP status, errno, exit status.
    """
    parts = [kind, type, *(str(number) for number in codes), template(message)]
    return blake2b("\x1f".join(parts).encode(errors="backslashreplace"), digest_size=6).hexdigest()


def template(message: str) -> str:
    """The message with its variable parts masked, for people: `Connection to <ip>:# refused`."""
    return _cached_template(message) if type(message) is str and len(message) <= _KEPT else _template(message)


def _template(message: str) -> str:
    if len(message) > _READ:
        message = message[: _READ // 2] + "…" + message[1 - _READ // 2 :]
    # A mask can expose another match next to it, so repeat until nothing changes.
    for _ in range(10):
        masked = _MASKS.sub(_mask, message)
        if masked == message:
            break
        message = masked
    return message


_cached_template = lru_cache(maxsize=1024)(_template)


def _mask(match: re.Match[str]) -> str:
    match match.lastgroup:
        case "code":
            return match.group()
        case "url":
            return _mask_url(match)
        case "quoted":
            return _mask_quoted(match.group())
        case other:
            return _MASK[str(other)]


def _mask_url(match: re.Match[str]) -> str:
    """The scheme and host of a URL. User, path and query differ each time."""
    host = match["place"].rpartition("@")[2]
    host = _IN_PLACE.sub(lambda part: _MASK[str(part.lastgroup)], host)
    rest = match["rest"]
    return f"{match['scheme']}://{host}{rest if len(rest) < 2 else '/…'}"


def _mask_quoted(text: str) -> str:
    """Libraries quote the underlying error: it is masked inside, not removed."""
    inside = text[1:-1]
    inside = _MASKS.sub(_mask, inside) if _CODE_INSIDE.search(inside) else "…"
    return text[0] + inside + text[-1]

"""Foreign strings as they are stored: bounded, valid for every database, and with their secrets masked.

Masked are the secrets that are known, and strings that look like one.

A pattern is tried only if one of its words occurs, and no pattern can backtrack: a hostile string takes no longer than
a harmless one.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import overload
from urllib.parse import quote, quote_plus, unquote

from mulligan.failure.checks import bad_value

LEFT_OUT = "\n[… left out …]\n"
MASK = "•••"
# A shorter string would occur inside harmless words.
SHORTEST_SECRET = 6
# In bytes: actor, reason, progress, and the refusal of a retry.
LONGEST_TEXT = 500
# How much more than the stored part is searched: a secret must not be cut in two before it is found.
_REACH = 2
# PostgreSQL refuses NUL, UTF-8 has no lone surrogates.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

Secret = str | re.Pattern[str]


def sanitize(text: str, limit: int) -> str:
    """A foreign string as it may be stored: without secrets, valid for every database, at most `limit` bytes."""
    reach = _REACH * limit
    if len(text) > 2 * reach:
        text = text[:reach] + LEFT_OUT + _from_a_word_on(text[-reach:])
    return clip(mask_secrets(text), limit)


def storable(text: str) -> str:
    return _UNSTORABLE.sub("\ufffd", text)


def clip(text: str, limit: int) -> str:
    """A storable string of at most `limit` bytes as UTF-8: the whole, or its head and its tail."""
    if type(text) is str and text.isascii() and len(text) <= limit and "\0" not in text:
        return text
    if len(text) > 2 * limit:
        # A character takes at least one byte, so nothing between these parts could remain.
        text = text[:limit] + text[-limit:]
    encoded = storable(text).encode()
    if len(encoded) <= limit:
        return encoded.decode()
    half = (limit - len(LEFT_OUT.encode())) // 2
    return encoded[:half].decode(errors="ignore") + LEFT_OUT + encoded[-half:].decode(errors="ignore")


def first_line(text: str, limit: int = 500) -> str:
    """The first line that is not empty, at most `limit` characters, safe for a terminal."""
    if len(text) <= limit and text.isprintable():
        return text.strip()
    lines = (line.strip() for line in text[: 4 * limit].splitlines())
    line = next((line for line in lines if line), "")
    line = storable(_CONTROL.sub(" ", line))
    return line if len(line) <= limit else line[: limit - 1] + "…"


@overload
def bounded(text: str) -> str: ...
@overload
def bounded(text: str | None) -> str | None: ...
def bounded(text: str | None) -> str | None:
    """A short note of a person or a task, such as a reason, as it is stored."""
    return None if text is None else sanitize(text, LONGEST_TEXT)


def _from_a_word_on(tail: str) -> str:
    """The string without its first word, which may be the end of a secret."""
    half = len(tail) // 2
    found = _SPACE.search(tail, 0, half)
    return tail[found.start() if found else half :]


def mask_secrets(text: str) -> str:
    """The string with every secret masked. Masking it again changes nothing."""
    text = _known.mask(text)
    lowered = text.lower()
    for look in _LOOKS:
        # A plain loop: `any` with a generator takes twice as long, and most strings contain none of the words.
        for word in look.words:
            if word in lowered:
                text = look.pattern.sub(look.masked, text)
                break
    return text


def mask_known(text: str) -> str:
    """The string with the known secrets masked: for one whose parts were masked alone."""
    return _known.mask(text)


def known_secrets() -> object:
    """What is known now: another object after each `redact`, so that a cache of masked strings can be dropped."""
    return _known


def is_secret_name(name: str) -> bool:
    """Whether a value with this name is a secret: `password`, `X-Api-Key`, `client_secret`."""
    return _NAMED.search(f"{name}=") is not None


def is_value_key(key: str) -> bool:
    """Whether a field with this key has the value of another field's name: `value`, `ParameterValue`."""
    return _IS_VALUE_KEY.fullmatch(key) is not None


def names_secret(key: str, content: str) -> bool:
    """Whether this field says that the value beside it is a secret: `"name": "token"`, `"type": "password"`."""
    found = _NAMED.search(f"{content}=")
    return found is not None and (not found["weak"] or _IS_NAME_KEY.fullmatch(key) is not None)


def redact(*secrets: Secret) -> None:
    """Mask these strings, and the matches of these patterns, from now on wherever they occur in this process."""
    global _known
    _known = _known.with_secrets(secrets)


def password_of(url: str) -> tuple[str, ...]:
    """The passwords of a database URL that can be masked everywhere: not short ones, and not one such as `postgres`
    that occurs elsewhere in the URL."""
    found = [match["secret"] for pattern in (_USERINFO, _URL_PASSWORD) for match in pattern.finditer(url)]
    return tuple(unquote(each) for each in found if len(unquote(each)) >= SHORTEST_SECRET and url.count(each) == 1)


@dataclass(frozen=True, slots=True)
class _Known:
    """The known secrets. They stay known for the life of the process, because other objects may still hold them."""

    values: tuple[str, ...] = ()
    patterns: tuple[re.Pattern[str], ...] = ()

    def with_secrets(self, secrets: Iterable[Secret]) -> "_Known":
        values, patterns = set(self.values), dict.fromkeys(self.patterns)
        for secret in secrets:
            if isinstance(secret, re.Pattern):
                patterns[_check_pattern(secret)] = None
            else:
                values |= _forms(_check_value(secret))
        # The longest first: one may contain another.
        return _Known(tuple(sorted(values, key=len, reverse=True)), tuple(patterns))

    def mask(self, text: str) -> str:
        for value in self.values:
            text = text.replace(value, MASK)
        for pattern in self.patterns:
            text = pattern.sub(MASK, text)
        return text


def _check_value(secret: object) -> str:
    if not isinstance(secret, str) or len(secret) < SHORTEST_SECRET or secret in MASK * 2:
        # The message must not contain the value.
        given = f"string of {len(secret)}" if isinstance(secret, str) else type(secret).__name__
        raise bad_value("a secret", given, f"a string of at least {SHORTEST_SECRET} characters, or a compiled pattern")
    return secret


def _check_pattern(pattern: re.Pattern[str]) -> re.Pattern[str]:
    if not isinstance(pattern.pattern, str) or pattern.search("") or pattern.search(MASK):
        raise bad_value(
            "a pattern of secrets", pattern.pattern, "a pattern of strings that matches neither '' nor the mask"
        )
    return pattern


def _forms(value: str) -> set[str]:
    """A secret as it is, in a URL, in JSON, and as Python shows it."""
    plain = json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]
    return {value, *_quoted(value), *plain}


def _quoted(value: str) -> Iterator[str]:
    """The encodings of URLs, paths and forms; RFC 3986 allows both cases of the hexadecimal digits."""
    for form in (
        quote(value, safe="", errors="replace"),
        quote(value, errors="replace"),
        quote_plus(value, errors="replace"),
    ):
        yield from (form, _ESCAPE.sub(lambda match: match[0].lower(), form))


@dataclass(frozen=True, slots=True)
class _Look:
    """One kind of secret. The pattern is tried only if one of its words occurs in the string."""

    words: tuple[str, ...]
    pattern: re.Pattern[str]
    masked: Callable[[re.Match[str]], str] = field(default=lambda match: _without(match))


def _without(match: re.Match[str]) -> str:
    """The match with its group `secret` masked."""
    return match[0] if match["secret"] is None else _masked(match, "secret")


def _masked(match: re.Match[str], group: str) -> str:
    """Mask the group, unless it is the mask already or means that there is no value."""
    if _EMPTY.fullmatch(match[group]):
        return match[0]
    start, end = match.start(group) - match.start(), match.end(group) - match.start()
    return match[0][:start] + MASK + match[0][end:]


_SPACE = re.compile(r"\s")
_ESCAPE = re.compile(r"%[0-9A-F]{2}")
_EMPTY = re.compile(rf"(?i:none|null|nil|true|false|undefined|{MASK}|\*+|<[\w ]*>|\.\.\.|…)?")

# The name of a secret. A name with one of these endings is only about a secret.
_ABOUT = r"(?![\w-]{0,24}?[_-]?(?:(?:type|count|limit|length|ur[il]|file|path|field)s?|expir\w{0,8}|ttl)\b)"
_FIRST = r"(?=[abcejopstx])"
_STRONG = r"""
    pass(?:word|wd|phrase|code) | (?<![a-z])pass(?![a-z]) | pwd(?![a-z]) | secret(?!ar) | authorization | cookie | csrf
    | x-auth | (?:api|access|account|private|signing|encryption|auth|sentry)[_-]?key | credentials?(?![a-z])
    | session[_-]?id
"""
_WEAK = r"(?: token(?!s\b|i) | (?<![a-z])(?: signature | sig | otp | pin | jwt | bearer | auth ) ) (?![a-z])"
_NAME = rf"(?: {_STRONG} | {_WEAK} ) {_ABOUT} [\w-]{{0,24}}+"
_NAMED = re.compile(rf"(?ix) {_FIRST} (?= (?P<weak> {_WEAK} )? ) {_NAME} =", re.VERBOSE)
_NAMES = (
    "pass", "pwd", "secret", "key", "auth", "cookie", "credential", "session", "csrf",
    "token", "sig", "otp", "pin", "jwt", "bearer",
)  # fmt: skip

# A quoted value, also inside a quoted string, where its quotes are escaped by backslashes.
_QUOTED = r"""
    [bru]{0,2} (?: " (?P<a> (?: [^"\\\n]++ | \\. )*+ ) | ' (?P<b> (?: [^'\\\n]++ | \\. )*+ )
                 | (?P<q> \\{1,8} ["'] ) (?P<c> (?: (?!(?P=q)) [^\n] )*+ ) )
"""
# Closing and separating characters are part of a secret only in its middle: `;Database=x`, `)` and `, x` are not.
_BARE = r"""
    (?: [^\s"'`,;&)\]}>\\]++ | [,;&] (?! \s | [\w.-]{1,40}[ ]?[=:] ) (?=[^"'`]) | [)\]}>] (?=\w) | \\ (?! [nrt"'] ) )++
"""


def _secret_value(match: re.Match[str]) -> str:
    group = _value_group(match)
    return match[0] if match["weak"] and _is_prose(match, group) else _masked(match, group)


def _paired_value(match: re.Match[str]) -> str:
    return _masked(match, _value_group(match))


def _value_group(match: re.Match[str]) -> str:
    groups = match.groupdict()
    return next(name for name in ("a", "b", "c", "rest", "bare") if groups.get(name) is not None)


def _is_prose(match: re.Match[str], group: str) -> bool:
    """`Unexpected token: semicolon` and `token: '<'` are not secrets; `token=x` and `"token": "x"` are."""
    # Without the mask: a secret masked in a word must not change what the word is.
    value, after = match[group].replace(MASK, ""), match["after"]
    if "=" in after or "%" in after or (group != "bare" and match["close"]):
        return False
    return len(value) < SHORTEST_SECRET if group != "bare" else len(value) < 16 and not any(map(str.isdigit, value))


# A name and its value as two fields: `"name": "token", "value": "x"`, `name=token, value=x`, `name="token" value="x"`.
_QUOTE = r"""\\{0,8}["']"""
_GIVEN = rf"(?: {_QUOTE} )?+ [ \t]{{0,8}} (?: => | [:=] (?!=) ) [ \t]{{0,8}}"
_NAME_KEY = r"(?: name | key | field | header | param(?:eter)? | variable | property | option )"
_VALUE_KEY = r"(?: [\w-]{0,24}? value | val )"
_IS_NAME_KEY = re.compile(rf"(?ix) [\w-]{{0,24}}? {_NAME_KEY}", re.VERBOSE)
_IS_VALUE_KEY = re.compile(rf"(?ix) {_VALUE_KEY}", re.VERBOSE)
_VALUE_GIVEN = rf"(?: {_QUOTE} )?+ {_VALUE_KEY} {_GIVEN}"
# The key of another field. Without quotes only `key=` is one: `a:b` may be a secret.
_OTHER_KEY = rf"(?: (?P<other> {_QUOTE} ) [\w.-]{{1,40}}+ (?P=other) \s{{0,8}} [:=] | [a-z_]{{1,40}}+ = [^=\s] )"
# `username="x"` in a header. Base64 that ends with `=` before a quote is not lower case alone.
_PARAMETER = r"""(?-i: (?: [a-z_]{1,20}+ | keyId ) = \\{0,8} " (?: [^"\\\n]++ | \\++(?!") )*+ \\{0,8} " )"""

# What follows the name: `=x`, ` == x`, `: x`, `"] = x`, `', 'x'`, `', value='x'`, ` 'x'`, `)=(x)`, `%3Dx`.
_ASSIGNED = re.compile(
    rf"""(?ix)
    {_FIRST} (?: (?P<line> authorization | cookie | passphrase ) | {_STRONG} | (?P<weak> {_WEAK} ) ) {_ABOUT}
    [\w-]{{0,24}}+ (?P<close> \\{{0,8}}["'] )? [\])]{{0,2}}
    (?P<after> [ \t]{{0,8}} (?: => | := | !?={{1,3}}+ | : | %3d ) \s{{0,8}}
      | (?(close) [ \t]{{0,8}},[ \t]{{0,8}} (?: (?!{_OTHER_KEY}) | (?(weak) (?!) | {_VALUE_GIVEN} ) ) | (?!) ) )
    \(?+ (?: {_QUOTED}
      | (?(line) (?P<rest> (?: {_PARAMETER} | \w++ | [^\w\n"'\\]++ | \\(?![nr"']) )++ ) | (?P<bare> {_BARE} ) ) )
    """,
    re.VERBOSE,
)
_SEPARATED = r"(?: [ \t]{0,8} [,;&] (?: \s | \\[nrt] ){0,40}+ | (?: \s | \\[nrt] ){1,40}+ )"
_FIELD = rf"""
    (?: {_QUOTE} )?+ (?! (?: {_NAME_KEY} | {_VALUE_KEY} ) \b ) [\w.-]{{1,40}}+ {_GIVEN}
    (?: "[^"\n]{{0,200}}+" | '[^'\n]{{0,200}}+' | [^\s,;&"'<>{{}}()\[\]]{{1,100}}+ )
"""
_FIELDS = rf"(?: {_FIELD} {_SEPARATED} ){{0,3}}?"
_NAME_GIVEN = rf"""
    {_NAME_KEY} {_GIVEN} (?P<open> {_QUOTE} )? (?(open) [\w .-]{{0,40}}? | [\w.-]{{0,40}}? )
    {_NAME} (?(open) (?P=open) )
"""
_NAME_FIRST = re.compile(
    rf"(?ix) {_NAME_GIVEN} {_SEPARATED} {_FIELDS} {_VALUE_GIVEN} (?: {_QUOTED} | (?P<bare> {_BARE} ) )",
    re.VERBOSE,
)
# The bare value is bounded because the search goes on inside it if no name follows.
_VALUE_FIRST = re.compile(
    rf"""(?ix) (?<![a-z]) (?: value | val ) {_GIVEN}
    (?: {_QUOTED} (?(a) ") (?(b) ') (?(c) (?P=q)) | (?P<bare> [^\s"'`,;&)\]}}>\\]{{1,200}}+ ) )
    {_SEPARATED} {_FIELDS} (?: {_QUOTE} )?+ [\w-]{{0,24}}? {_NAME_GIVEN} (?! {_SEPARATED} {_VALUE_GIVEN} )
    """,
    re.VERBOSE,
)
# `--password hunter2` in a shell and in a list of arguments, `-u ann:hunter2` of curl.
_OPTION = re.compile(
    rf"""(?ix) (?<![\w-])
    (?: --[\w-]{{0,24}}? {_NAME} (?: ["'],\s{{0,8}}["'] | \s{{1,8}}["']? ) (?!-)
      | (?: -u | --user | --proxy-user ) (?: ["'],\s{{0,8}}["'] | \s{{1,8}}["']? | = ) [^\s:"']{{1,200}}+ : )
    (?P<secret> [^\s"'`]++ )
    """,
    re.VERBOSE,
)
# The same without a space, which only the program's name distinguishes from other options.
_CURL = re.compile(r"""\bcurl\b[^\n;|]{0,200}?[\s"']-u[^\s:"']{1,200}+:(?P<secret>[^\s"'`]++)""")
_MYSQL = re.compile(
    r"""\b (?:mysql|mariadb) [\w-]{0,16}+ [^\n;|]{0,200}? [\s"'] -p
    (?! \d{1,5}+: | [.,;:)] ) (?P<secret> [^\s"'`]++ )""",
    re.VERBOSE,
)
_SSHPASS = re.compile(
    r"""(?x) \bsshpass\b [^\n]{0,40}? [\s"'] -p (?: ["'],\s{0,8}["'] | \s{0,8}["']? ) (?P<secret> [^\s"'`]++ )"""
)
# `auth=('ann', 'hunter2')` and `BasicAuth('ann', 'hunter2')`.
_PAIR = re.compile(
    r"""(?ix) (?: auth["']?\s{0,8}[=:]\s{0,8} | (?:basic|digest|proxy|ntlm)_?auth ) [(\[] \s{0,8}
    [bru]{0,2} (?: "[^"\n]{0,200}+" | '[^'\n]{0,200}+' ) \s{0,8},\s{0,8} [bru]{0,2} (?P<quote>["'])
    (?P<secret> (?: (?!(?P=quote)) (?: [^\\\n] | \\. ) )*+ )
    """,
    re.VERBOSE,
)
# `password 'hunter2'`, and `password is hunter2`, where a digit among letters distinguishes it from `password is
# wrong`.
_SAID = re.compile(
    r"""(?ix) (?: pass(?:word|wd|phrase|code) (?P<verb> \s{1,4}(?:is|was):? )? | identified\s{1,4}by ) \s{1,4}
    (?P<open> \\{0,8}["'] )? (?P<secret> (?(open) [^\s"'\\]{1,200}+ (?=\\{0,8}["']) | (?(verb)
        (?! (?:base|sha|md|utf)-?\d ) (?= [^\s\d]{0,200}+\d ) (?= [^\sa-z]{0,200}+[a-z] ) [^\s"'`,;\\]{6,200}+
      | (?!) ) ) )
    """,
    re.VERBOSE,
)
_ELEMENT = re.compile(
    rf"(?ix) <[\w:-]{{0,40}}? {_NAME} (?:\s[^<>]{{0,200}}+)? > (?P<secret> [^<]++ ) (?=<)",
    re.VERBOSE,
)
# `<entry key="password">hunter2</entry>`.
_ENTRY = re.compile(
    rf"""(?ix) < (?P<tag> [\w:.-]{{1,40}}+ ) \s [^<>]{{0,200}}? {_NAME_GIVEN} [^<>]{{0,200}}+ >
    \s{{0,40}}+ (?P<secret> [^<]++ ) (?= </(?P=tag) )""",
    re.VERBOSE,
)
# `<name>password</name><value>hunter2</value>` and `<property name="password"><value>hunter2</value>`.
_NEXT_ELEMENT = re.compile(
    rf"""(?ix) {_FIRST} {_NAME} (?: </[\w:-]{{1,40}}+> | ["'] [^<>]{{0,200}}+ > ) \s{{0,40}}+
    < (?: value | val | string ) > (?P<secret> [^<]++ ) (?=<)""",
    re.VERBOSE,
)
# In JSON a slash may be escaped by a backslash. An unencoded slash may be part of a password, unless it follows a port.
_USERINFO = re.compile(
    r"""(?x) :(?://|\\/\\/) [^\s/?\#"'@:]{0,200}+ : (?! \d{1,5}+ \\?/ )
    (?P<secret> [^\s/"'\\]{0,1000} (?=@) | [^\s/"'\\]{1,100}+ / [^\s"'\\:]{0,100} (?=@) )"""
)
# The delimiters of a URL that was percent-encoded, once or twice, perhaps except slashes and colons.
_COLON, _SLASH, _AT = r"(?: : | %(?:25)?3a )", r"(?: / | %(?:25)?2f )", r"%(?:25)?40"
# A port is followed by a slash, and may be by a query that was not encoded.
_ENCODED_USERINFO = re.compile(
    rf"""(?ix) {_COLON} {_SLASH}{{2}} (?: (?! {_COLON} | {_SLASH} | {_AT} ) [^\s?\#"'@&] ){{0,200}}+ {_COLON}
    (?! \d{{1,5}}+ (?: {_SLASH} | \? ) )
    (?P<secret> (?: (?! {_SLASH} ) [^\s"'@&] ){{0,1000}} (?= {_AT} )
      | (?: (?! {_SLASH} ) [^\s"'@&] ){{1,100}}+ {_SLASH} (?: (?! {_COLON} ) [^\s"'@&] ){{0,100}} (?= {_AT} ) )""",
    re.VERBOSE,
)
# `ann:p%40ss@host` without a scheme: only the percent sign distinguishes it from `image:tag@sha256` and `cc:ann@host`.
_ENCODED_PASSWORD = re.compile(
    r"""(?ix) (?<![\w.+%-]) (?! (?: mailto | file | data | about | urn | pkg ): )
    [a-z_] (?: [\w.+-] | %[0-9a-f]{2} ){0,100}+ :
    (?P<secret> [^\s/"'@:?\#<>()%]{0,200}+ %[0-9a-f]{2} [^\s/"'@?\#<>()]{0,200}+ ) (?= @ (?!sha\d) [\w\[] )""",
    re.VERBOSE,
)
_URL_PASSWORD = re.compile(r"[?&](?:ssl)?password=(?P<secret>[^&\s]++)")
_TOKEN_AS_USER = re.compile(r""":(?://|\\/\\/)(?P<secret>[^\s/?#"'@:\\]{16,1000}+)(?=@)""")
# A Sentry DSN: the key is in the place of the user, the project is the number at the end.
_PROJECT = r"\d{1,20}+ (?! [\w/-] | \.\w )"
_DSN = re.compile(
    rf"""(?ix) \bhttps? :(?://|\\/\\/) (?P<secret> [^\s/?\#"'@:\\]{{1,200}}+ ) (?=
        (?: : [^\s/"'@]{{0,200}}+ )? @ [\w.-]{{0,200}}? sentry
      | @ [\w.-]{{1,200}}+ (?: :\d{{1,5}}+ )? (?: \\?/ (?!{_PROJECT}) [\w.-]{{1,100}}+ ){{0,8}}+ \\?/ {_PROJECT} )
    """,
    re.VERBOSE,
)
_ENCODED_TOKEN_AS_USER = re.compile(
    rf"""(?ix) {_COLON} {_SLASH}{{2}}
    (?P<secret> (?: (?! {_COLON} | {_SLASH} | {_AT} | %(?:25)?3f ) [^\s?\#"'@&] ){{16,1000}}+ ) (?= {_AT} )""",
    re.VERBOSE,
)
_ENCODED_PROJECT = rf"\d{{1,20}}+ (?! [\w-] | {_SLASH} | \.\w )"
_ENCODED_DSN = re.compile(
    rf"""(?ix) https? {_COLON} {_SLASH}{{2}} (?P<secret> [\w.-]{{1,200}}+ ) (?=
        (?: {_COLON} (?: (?! {_SLASH} | {_AT} ) [^\s"'@&] ){{0,200}}+ )? {_AT} [\w.-]{{0,200}}? sentry
      | {_AT} [\w.-]{{1,200}}+ (?: {_COLON} \d{{1,5}}+ )?
        (?: {_SLASH} (?!{_ENCODED_PROJECT}) [\w.-]{{1,100}}+ ){{0,8}}+ {_SLASH} {_ENCODED_PROJECT} )""",
    re.VERBOSE,
)
# Telegram's `bot<id>:<token>` and Discord's `Bot <token>`; their ids are no secrets. A short number may name a bot.
_BOT = re.compile(
    rf"""(?ix) (?: {_SLASH} bot | (?: (?<![a-z0-9]) | %(?:25)?[0-9a-f]{{2}} ) bot (?=\d{{5}}) ) \d{{1,20}}+ {_COLON}
      (?P<secret> [\w-]{{6,}}+ )
      | (?<![a-z]) bot [ ]{{1,4}} (?P<token> [\w-]{{8,}}+ \. [\w-]{{2,}}+ \. [\w-]{{8,}}+ )""",
    re.VERBOSE,
)
# Knowing such an address is enough to post there.
_WEBHOOK = re.compile(
    r"""(?ix) (?: hooks\.slack(?:-gov)?\.com/(?: services | workflows | triggers )/
      | discord(?:app)?\.com/api/(?:v\d{1,3}+/)?(?: webhooks | interactions )/\d{1,30}+/
      | webhook\.office\.com/webhookb2/ | outlook\.office(?:365)?\.com/webhook/
      | hooks\.zapier\.com/hooks/catch/ | maker\.ifttt\.com/trigger/[\w-]{1,100}+/(?:json/)?with/key/ )
    (?P<secret> [\w/@%.~-]{3,}+ )""",
    re.VERBOSE,
)
_QUERY = re.compile(
    r"""(?i)[?&](?:key|sig|code|auth|jwt|sas|hash|X-Amz-[\w-]{1,30}+)=(?P<secret>(?!\d{1,3}(?!\d))[^&\s#"'<>]++)"""
)
_SCHEME = re.compile(
    rf"""(?ix) (?<![a-z]) (?: bearer | basic | digest | negotiate | ntlm | apikey | token | aws4-hmac-sha256 )
    [ ]{{1,4}} (?P<secret> (?! realm= ) {_PARAMETER} (?: ,[ ]{{0,4}} (?: {_PARAMETER} | \w{{1,30}}+ = [^\s,"']++ ) )*+
      | (?-i: (?= [A-Za-z]? [a-z._~-]*+ [0-9A-Z+/=] ) ) [\w+/=.~-]{{8,}} (?: ,[ ]? \w{{1,30}}+ = [^\s,]++ )*+ )""",
    re.VERBOSE,
)
_SHAPES = (
    r"(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16,}+",
    r"gh[opusr]_[A-Za-z0-9]{20,}+", r"github_pat_\w{20,}+", r"glpat-[\w-]{16,}+",
    r"xox[a-z]-[\w-]{10,}+", r"xapp-[\w-]{10,}+",
    r"[rs]k_(?:live|test)_\w{8,}+", r"whsec_[\w+/=-]{16,}+", r"sk-[\w-]{20,}+",
    r"AIza[\w-]{30,}+", r"ya29\.[\w-]{20,}+", r"SG\.[\w-]{16,}+\.[\w-]{16,}+", r"hv[bs]\.[\w-]{20,}+",
    r"npm_\w{30,}+", r"pypi-[\w-]{40,}+", r"dop_v1_[0-9a-f]{40,}+", r"\d{8,10}(?::|%(?:25)?3[Aa])AA[\w-]{30,}+",
    r"eyJ[\w-]{6,}+\.[\w-]{4,}+(?:\.[\w-]*+){1,3}",
    r"mk_[A-Za-z0-9]{4,}+_[\w-]{12,}+",
)  # fmt: skip
_SHAPE_WORDS = (
    "akia", "asia", "aroa", "aida", "gh", "github_pat_", "glpat-", "xox", "xapp-", "_live_",
    "_test_", "whsec_", "sk-", "aiza", "ya29.", "sg.", "hvs.", "hvb.", "npm_", "pypi-", "dop_v1_", ":aa", "3aaa", "eyj",
    "mk_",
)  # fmt: skip
_SHAPE = re.compile(rf"(?<![A-Za-z0-9])(?P<secret>{'|'.join(_SHAPES)})")
# A key without its end or its beginning was truncated: the rest is masked all the same.
_ARMOUR = re.compile(
    r"""-----BEGIN[ ][A-Z0-9 ]{0,40}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----(?P<secret>[^-]*+)
      | ^(?P<tail>[A-Za-z0-9+/=\s\\]{40,}+)(?=-----END[ ][A-Z0-9 ]{0,40}PRIVATE[ ]KEY)""",
    re.VERBOSE,
)


def _armoured(match: re.Match[str]) -> str:
    return MASK if match["tail"] else _without(match)


def _bot(match: re.Match[str]) -> str:
    return _masked(match, "token" if match["secret"] is None else "secret")


_LOOKS = (
    _Look(("private key",), _ARMOUR, _armoured),
    _Look(("://", r":\/\/"), _USERINFO),
    _Look(("%40", "%2540"), _ENCODED_USERINFO),
    _Look(("%40", "%2540"), _ENCODED_TOKEN_AS_USER),
    _Look(("%40", "%2540"), _ENCODED_DSN),
    _Look(("%",), _ENCODED_PASSWORD),
    _Look(("://", r":\/\/"), _TOKEN_AS_USER),
    _Look(("://", r":\/\/"), _DSN),
    _Look(("webhook", "hooks.", "interactions/", "/with/key/"), _WEBHOOK),
    _Look(("bot",), _BOT, _bot),
    # Before the next one, which would mask the number before a colon and leave the rest.
    _Look(_SHAPE_WORDS, _SHAPE),
    _Look(("bearer", "basic", "digest", "negotiate", "ntlm", "apikey", "token", "aws4-"), _SCHEME),
    _Look(("auth",), _PAIR),
    _Look(_NAMES, _ASSIGNED, _secret_value),
    _Look(("--", "-u"), _OPTION),
    _Look(("curl",), _CURL),
    _Look(("mysql", "mariadb"), _MYSQL),
    _Look(("sshpass",), _SSHPASS),
    _Look(("pass", "identified"), _SAID),
    _Look(("</",), _ELEMENT),
    _Look(("</",), _ENTRY),
    _Look(("</val", "</string"), _NEXT_ELEMENT),
    _Look(("val",), _NAME_FIRST, _paired_value),
    _Look(("val",), _VALUE_FIRST, _paired_value),
    _Look(("=",), _QUERY),
)

_known = _Known()

"""The token of a key: `mk_<public id>_<secret>_<checksum>`, all letters and digits.

A person sees it once. The store has only its hash: the secret has 256 random bits, so a fast hash is enough. The
checksum tells a mistyped token from an unknown one without asking the store, and lets scanners recognise tokens.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from zlib import crc32

PREFIX = "mk"
ID_LENGTH = 8
SECRET_BYTES = 32

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# As many digits as 32 bytes, and as a CRC of 32 bits, can need.
_SECRET_LENGTH, _CHECKSUM_LENGTH = 43, 6
_TOKEN = re.compile(
    rf"{PREFIX}_(?P<id>[0-9A-Za-z]{{{ID_LENGTH}}})_(?P<secret>[0-9A-Za-z]{{{_SECRET_LENGTH}}})"
    rf"_(?P<checksum>[0-9A-Za-z]{{{_CHECKSUM_LENGTH}}})"
)

RandomBytes = Callable[[int], bytes]


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """`id` is public, `secret` is not."""

    id: str
    secret: str

    @property
    def text(self) -> str:
        body = f"{PREFIX}_{self.id}_{self.secret}"
        return f"{body}_{_base62(crc32(body.encode()), _CHECKSUM_LENGTH)}"

    @property
    def digest(self) -> str:
        """The hash that is stored."""
        return digest_of(self.text)

    @property
    def last_four(self) -> str:
        """Shown beside the id, so that a person recognises the token."""
        return self.text[-4:]

    def __repr__(self) -> str:
        return f"Token({self.id!r})"


def new_token(draw: RandomBytes) -> Token:
    """`draw` returns that many unpredictable bytes."""
    # One byte more than the id needs: the remainder is close to evenly distributed.
    public = int.from_bytes(draw(ID_LENGTH + 1)) % 62**ID_LENGTH
    return Token(_base62(public, ID_LENGTH), _base62(int.from_bytes(draw(SECRET_BYTES)), _SECRET_LENGTH))


def read_token(text: str) -> Token | None:
    """None if it has not the form of a token, or another checksum."""
    found = _TOKEN.fullmatch(text)
    if found is None:
        return None
    token = Token(found["id"], found["secret"])
    return token if token.text == text else None


def digest_of(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))

"""Signatures of Standard Webhooks: HMAC-SHA256 over id, time and body."""

import binascii
import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256

from mulligan.errors import BadSecret
from mulligan.values.clock import system_secrets

PREFIX = "whsec_"
_LENGTHS = range(24, 65)


def new_secret() -> str:
    """A secret for one receiver."""
    return encode_secret(system_secrets(32))


def encode_secret(key: bytes) -> str:
    return PREFIX + b64encode(key).decode()


def check_secret(secret: str) -> bytes:
    """The key inside a secret. Raises BadSecret."""
    if not isinstance(secret, str) or not secret.startswith(PREFIX):
        raise BadSecret
    try:
        key = b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise BadSecret from None
    if len(key) not in _LENGTHS:
        raise BadSecret
    return key


def sign(body: bytes, *, message_id: str, timestamp: int, secrets: Sequence[str]) -> dict[str, str]:
    """The three headers. During a rotation `secrets` has the new and the old one; receivers accept either."""
    if not secrets:
        raise BadSecret
    content = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    digests = [hmac.digest(check_secret(secret), content, sha256) for secret in secrets]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{b64encode(digest).decode()}" for digest in digests),
    }


def is_signed(body: bytes, headers: Mapping[str, str], *, secret: str) -> bool:
    """Whether one of the signatures fits. `headers` has lower-case names. The time is not checked."""
    try:
        message_id, timestamp = headers["webhook-id"], int(headers["webhook-timestamp"])
        given = headers["webhook-signature"].encode("ascii")
    except (KeyError, ValueError):
        return False
    right = sign(body, message_id=message_id, timestamp=timestamp, secrets=[secret])["webhook-signature"].encode()
    return any(hmac.compare_digest(each, right) for each in given.split()[:10])

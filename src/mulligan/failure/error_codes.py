"""Error codes, each with its message for users, its class and its HTTP status."""

# ruff: noqa: RUF001 - the messages of the source documents have typographic apostrophes

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from mulligan.failure.checks import bad_value, check_integer, set_fields
from mulligan.failure.redact import first_line

_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_PROMISE = re.compile(r"\s*\bWe(?:['’]ll| will) (?:retry|try again)\b[^.!]{0,100}[.!]?\s*", re.IGNORECASE)

CODE_ALLOWED = "a letter, then up to 63 letters, digits, '_', '-' or '.', such as 'NO_FUNDS'"


class ErrorClass(StrEnum):
    FINAL = "final"
    RETRYABLE = "retryable"
    RATE_LIMITED = "rate_limited"

    @classmethod
    def of(cls, value: "ErrorClass | str") -> "ErrorClass":
        if value not in tuple(cls):
            raise bad_value("error_class", value, "one of " + ", ".join(repr(str(item)) for item in cls))
        return cls(value)


def is_code(value: object) -> bool:
    return isinstance(value, str) and _CODE.fullmatch(value) is not None


def without_promise(message: str) -> str:
    """The message without the sentence that announces a retry."""
    return _PROMISE.sub(" ", message).strip() or message


@dataclass(frozen=True, slots=True, init=False)
class ErrorCode:
    """`message` is shown while a retry is pending. Without a retry, `final_message` is shown, or `message` without the
    sentence that announces one.

    `blames_service`: True if the service that the task calls is at fault, False if it answered in good health, None if
    the code says nothing about it.
    """

    code: str
    message: str
    error_class: ErrorClass = ErrorClass.RETRYABLE
    status: int = 500
    final_message: str | None = None
    blames_service: bool | None = None

    def __init__(
        self,
        code: str,
        message: str,
        error_class: ErrorClass | str = ErrorClass.RETRYABLE,
        status: int = 500,
        final_message: str | None = None,
        *,
        blames_service: bool | None = None,
    ) -> None:
        if not is_code(code):
            raise bad_value("code", code, CODE_ALLOWED)
        set_fields(
            self,
            code=code,
            message=_line(f"the message of {code}", message),
            error_class=ErrorClass.of(error_class),
            status=check_integer(f"the status of {code}", status, least=100, most=599),
            final_message=None if final_message is None else _line(f"the final message of {code}", final_message),
            blames_service=check_blame(f"blames_service of {code}", blames_service),
        )

    @property
    def last_message(self) -> str:
        """The message when no retry follows."""
        return self.final_message or without_promise(self.message)


def check_blame(field: str, blames: bool | None) -> bool | None:  # noqa: FBT001
    if blames not in (True, False, None):
        raise bad_value(field, blames, "True (the service is at fault), False (it answered), or None (unknown)")
    return blames


def _line(field: str, text: str) -> str:
    if not isinstance(text, str) or not text or first_line(text) != text:
        raise bad_value(field, text, "one line of 1 to 500 characters")
    return text


class Catalogue:
    """The codes that an app knows. Immutable: `with_codes` returns another catalogue."""

    __slots__ = ("_codes",)

    def __init__(self, codes: Iterable[ErrorCode] = ()) -> None:
        self._codes: Mapping[str, ErrorCode] = MappingProxyType(_by_code(codes))

    @classmethod
    def default(cls) -> "Catalogue":
        return DEFAULT

    def with_codes(self, codes: Iterable[ErrorCode]) -> "Catalogue":
        """A copy with these codes added. They replace codes of the same name."""
        return Catalogue({**self._codes, **_by_code(codes)}.values())

    def get(self, code: str) -> ErrorCode:
        """The entry of a code; a generic entry for a code without one."""
        return self._codes.get(code) or _generic_entry(code)

    def __contains__(self, code: object) -> bool:
        return code in self._codes

    def __iter__(self) -> Iterator[ErrorCode]:
        return iter(self._codes.values())

    def __len__(self) -> int:
        return len(self._codes)

    def __repr__(self) -> str:
        return f"<Catalogue of {len(self)} codes>"


def _by_code(codes: Iterable[ErrorCode]) -> dict[str, ErrorCode]:
    found: dict[str, ErrorCode] = {}
    for entry in codes:
        if not isinstance(entry, ErrorCode):
            raise bad_value("an entry of the catalogue", entry, "an ErrorCode")
        if found.setdefault(entry.code, entry) != entry:
            raise bad_value("an entry of the catalogue", entry.code, "given once, not twice with different texts")
    return found


def _generic_entry(code: str) -> ErrorCode:
    return ErrorCode(code if is_code(code) else "UNKNOWN", "Something went wrong. We’ll retry.")


_SHARED = (
    ErrorCode("NOT_PDF", "Only PDF files are supported.", "final", 400),
    ErrorCode("TOO_LARGE", "File exceeds 50 MB limit.", "final", 413),
    ErrorCode("GW_4XX", "Couldn’t convert this file with the selected mapping.", "final", 422, blames_service=False),
    ErrorCode(
        "GW_5XX", "Converter service is having an issue. We’ll retry shortly.", "retryable", 502, blames_service=True
    ),
    ErrorCode("GW_TIMEOUT", "Conversion is taking too long. We’ll retry.", "retryable", 504, blames_service=True),
    ErrorCode("IO_ERROR", "Temporary storage issue. We’ll retry.", "retryable", 500),
    ErrorCode("NOT_READY", "Conversion not finished yet.", "retryable", 409),
    ErrorCode("EXPIRED", "File was removed by retention. Re-upload to regenerate.", "final", 404),
    ErrorCode("FORBIDDEN", "This file isn’t yours.", "final", 403),
    ErrorCode("UNKNOWN", "Something went wrong. We’ll retry.", "retryable", 500),
)

_ENGINE = (
    ErrorCode("RATE_LIMITED", "We were asked to slow down. We’ll retry.", "rate_limited", 429, blames_service=True),
    ErrorCode("SNOOZED", "This was put off until later.", "rate_limited", 503),
    ErrorCode("SNOOZE_LIMIT", "This was put off too many times.", "final", 503),
    ErrorCode("REJECTED", "This can’t be done.", "final", 422),
    ErrorCode("TIMEOUT", "This took too long. We’ll retry.", "retryable", 504, blames_service=True),
    ErrorCode("DEADLINE", "The deadline came before this was done.", "final", 504),
    ErrorCode("BUDGET_EXHAUSTED", "Its owner has no retries left for it in this period.", "final", 429),
    ErrorCode("WORKER_LOST", "The worker running this went away. We’ll retry.", "retryable", 500),
    ErrorCode("CRASHED", "The process running this died. We’ll retry.", "retryable", 500),
    ErrorCode("SEGFAULT", "The process running this died of a memory fault. We’ll retry.", "retryable", 500),
    ErrorCode("SERVICE_OPEN", "A service this needs is out of order. This was not tried.", "final", 503),
    ErrorCode("INVALID_INPUT", "The input of this job isn’t valid.", "final", 422),
    ErrorCode("VERSION_MISMATCH", "This waits for a worker with another version of it. We’ll retry.", "retryable", 503),
    ErrorCode("RESULT_INVALID", "This ran, but its result can’t be stored as JSON.", "final", 500),
    ErrorCode("UNSTORABLE", "This ran, but its outcome can’t be stored.", "final", 500),
)

_PACKS = (
    ErrorCode(
        "CERTIFICATE_INVALID",
        "Another system couldn’t prove that it is the right one.",
        "final",
        502,
        blames_service=True,
    ),
    ErrorCode("CONSTRAINT_VIOLATED", "The database’s own rules don’t allow this.", "final", 409),
    ErrorCode("DATABASE_BUSY", "The database is busy with something else. We’ll retry.", "retryable", 503),
    ErrorCode("DATABASE_DAMAGED", "The database is damaged.", "final", 500),
    ErrorCode(
        "DATABASE_UNAVAILABLE", "The database can’t be reached. We’ll retry.", "retryable", 503, blames_service=True
    ),
    ErrorCode("DISK_FULL", "There is no space left to store this. We’ll retry.", "retryable", 507),
    ErrorCode("FILE_MISSING", "A file this needs isn’t there. We’ll retry.", "retryable", 500),
    ErrorCode(
        "HTTP_3XX", "Another system sent this elsewhere, and it can’t be followed.", "final", 502, blames_service=False
    ),
    ErrorCode("HTTP_4XX", "Another system refused this.", "final", 422, blames_service=False),
    ErrorCode("HTTP_5XX", "Another system is having an issue. We’ll retry.", "retryable", 502, blames_service=True),
    ErrorCode("HTTP_BROKEN", "Another system’s answer was broken. We’ll retry.", "retryable", 502, blames_service=True),
    ErrorCode(
        "HTTP_BUSY", "Another system can’t take this right now. We’ll retry.", "retryable", 503, blames_service=False
    ),
    ErrorCode("IMPORT_FAILED", "Part of the program is missing on a worker. We’ll retry.", "retryable", 500),
    ErrorCode("MEDIA_DAMAGED", "The video or sound file is damaged.", "final", 422),
    ErrorCode("MEDIA_MISSING", "The video or sound file isn’t there any more.", "final", 410),
    ErrorCode("MEDIA_UNSUPPORTED", "The file isn’t a video or sound file of a known format.", "final", 415),
    ErrorCode("NETWORK", "Another system can’t be reached. We’ll retry.", "retryable", 502, blames_service=True),
    ErrorCode("NOT_A_PAGE", "This address leads to a file, or to nothing that can be shown.", "final", 422),
    ErrorCode("NOT_PERMITTED", "The worker isn’t permitted to do this.", "final", 500),
    ErrorCode("OUT_OF_MEMORY", "This was stopped, most likely for lack of memory. We’ll retry.", "retryable", 500),
    ErrorCode("PROGRAM_CRASHED", "A program this needs crashed. We’ll retry.", "retryable", 500),
    ErrorCode("PROGRAM_FAILED", "A program this needs reported a failure. We’ll retry.", "retryable", 500),
    ErrorCode("PROGRAM_MISSING", "A program this needs isn’t installed here. We’ll retry.", "retryable", 500),
    ErrorCode("QUERY_INVALID", "The database doesn’t understand what this asks for.", "final", 500),
    ErrorCode("MAIL_LOGIN_REFUSED", "The mail server doesn’t accept our password.", "final", 502, blames_service=True),
    ErrorCode("MAIL_REFUSED", "The mail server refused this mail.", "final", 422, blames_service=False),
    ErrorCode(
        "MAIL_UNAVAILABLE",
        "The mail server can’t take this now. We’ll retry.",
        "retryable",
        503,
        blames_service=True,
    ),
    ErrorCode("MAIL_UNSUPPORTED", "The mail server lacks what this needs.", "final", 502, blames_service=True),
    ErrorCode("TARGET_REFUSED", "This address may not be called.", "final", 422),
    ErrorCode("URL_INVALID", "The address this needs isn’t valid.", "final", 422),
    ErrorCode("WEBHOOK_GONE", "The receiver wants no more of these.", "final", 410, blames_service=False),
)

DEFAULT: Final = Catalogue([*_SHARED, *_ENGINE, *_PACKS])

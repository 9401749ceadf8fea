"""The ten codes that people see, and the one table that maps every other code onto them."""

# ruff: noqa: RUF001 - the messages have typographic apostrophes

from collections.abc import Mapping

from mulligan import ErrorCode

CODES: Mapping[str, ErrorCode] = {
    entry.code: entry
    for entry in (
        ErrorCode("NOT_PDF", "Only PDF files are supported.", "final", 400),
        # A refusal names the limit of its installation.
        ErrorCode("TOO_LARGE", "File exceeds 50 MB limit.", "final", 413),
        ErrorCode(
            "GW_4XX", "Couldn’t convert this file with the selected mapping.", "final", 422, blames_service=False
        ),
        ErrorCode(
            "GW_5XX", "Converter service is having an issue. We’ll retry shortly.", status=502, blames_service=True
        ),
        ErrorCode("GW_TIMEOUT", "Conversion is taking too long. We’ll retry.", status=504, blames_service=True),
        ErrorCode("IO_ERROR", "Temporary storage issue. We’ll retry.", status=500),
        ErrorCode("NOT_READY", "Conversion not finished yet.", status=409),
        ErrorCode("EXPIRED", "File was removed by retention. Re-upload to regenerate.", "final", 404),
        ErrorCode("FORBIDDEN", "This file isn’t yours.", "final", 403),
        ErrorCode("UNKNOWN", "Something went wrong. We’ll retry.", status=500),
    )
}

# What the engine and its rules say besides. A code that is missing here is UNKNOWN.
INNER: Mapping[str, str] = {
    # The gateway is not there, or not well.
    "RATE_LIMITED": "GW_5XX",
    "SNOOZED": "GW_5XX",
    "SNOOZE_LIMIT": "GW_5XX",
    "SERVICE_OPEN": "GW_5XX",
    "BUDGET_EXHAUSTED": "GW_5XX",
    "GW_UNAVAILABLE": "GW_5XX",
    "NETWORK": "GW_5XX",
    "HTTP_3XX": "GW_5XX",
    "HTTP_5XX": "GW_5XX",
    "HTTP_BUSY": "GW_5XX",
    "HTTP_BROKEN": "GW_5XX",
    "CERTIFICATE_INVALID": "GW_5XX",
    "URL_INVALID": "GW_5XX",
    "TARGET_REFUSED": "GW_5XX",
    "TIMEOUT": "GW_TIMEOUT",
    "DEADLINE": "GW_TIMEOUT",
    # The file or the mapping is at fault.
    "HTTP_4XX": "GW_4XX",
    "PARSE_ERROR": "GW_4XX",
    "VALIDATION_ERROR": "GW_4XX",
    "INVALID_MAPPING": "GW_4XX",
    "INVALID_INPUT": "GW_4XX",
    "REJECTED": "GW_4XX",
    # Our own machine.
    "DISK_FULL": "IO_ERROR",
    "FILE_MISSING": "IO_ERROR",
    "NOT_PERMITTED": "IO_ERROR",
    "DATABASE_BUSY": "IO_ERROR",
    "DATABASE_DAMAGED": "IO_ERROR",
    "DATABASE_UNAVAILABLE": "IO_ERROR",
    "UNSTORABLE": "IO_ERROR",
    # Nothing that people could act upon.
    "MEMORY_ERROR": "UNKNOWN",
    "OUT_OF_MEMORY": "UNKNOWN",
    "WORKER_LOST": "UNKNOWN",
    "CRASHED": "UNKNOWN",
    "SEGFAULT": "UNKNOWN",
    "VERSION_MISMATCH": "UNKNOWN",
    "RESULT_INVALID": "UNKNOWN",
    "CONSTRAINT_VIOLATED": "UNKNOWN",
    "QUERY_INVALID": "UNKNOWN",
    "IMPORT_FAILED": "UNKNOWN",
    "PROGRAM_CRASHED": "UNKNOWN",
    "PROGRAM_FAILED": "UNKNOWN",
    "PROGRAM_MISSING": "UNKNOWN",
    # Of mails, webhooks, videos and browsers, which this application does not use.
    "MEDIA_DAMAGED": "UNKNOWN",
    "MEDIA_MISSING": "UNKNOWN",
    "MEDIA_UNSUPPORTED": "UNKNOWN",
    "NOT_A_PAGE": "UNKNOWN",
    "MAIL_LOGIN_REFUSED": "UNKNOWN",
    "MAIL_REFUSED": "UNKNOWN",
    "MAIL_UNAVAILABLE": "UNKNOWN",
    "MAIL_UNSUPPORTED": "UNKNOWN",
    "WEBHOOK_GONE": "UNKNOWN",
}


# Answers that are about no conversion, and the codes of the common pages. Of these, a code that is missing is UNKNOWN.
STATED = (
    "TOO_MANY_JOBS",
    "TOO_MANY_UPLOADS",
    "TOO_MANY_RETRIES",
    "UPLOADS_PAUSED",
    "TOO_MANY_TRIES",
    "TOO_MANY_STREAMS",
)
REFUSED: Mapping[str, str] = {
    "FOREIGN_FORM": "FORBIDDEN",
    "UNAUTHORIZED": "FORBIDDEN",
    # A form that is incomplete: there is no file that could be at fault.
    "VALIDATION_ERROR": "UNKNOWN",
}


def answer_code(code: str) -> str:
    """The code of an answer over HTTP: one of the ten, or a stated one."""
    return code if code in STATED else REFUSED.get(code) or public_code(code)


def public_code(code: str) -> str:
    """The one of the ten codes that stands for this one."""
    return code if code in CODES else INNER.get(code, "UNKNOWN")


def too_large(limit: str) -> str:
    return f"File exceeds {limit} limit."


def message_of(code: str, *, is_final: bool) -> str:
    """The line for people; without its promise if no retry follows."""
    entry = CODES[public_code(code)]
    return entry.last_message if is_final else entry.message

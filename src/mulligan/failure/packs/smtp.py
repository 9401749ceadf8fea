"""Errors of mail servers, by the code of their reply: 4xx is retried, 5xx is final.

Python's `smtplib` writes the reply into the message of its errors, as `(550, b'no such user')`. Rules look there, so
they also match failures from the log.
"""

from mulligan.errors import BadMail
from mulligan.failure.rule import Rule

_ERROR = "smtplib.SMTPException"

RULES: tuple[Rule, ...] = (
    # An address, a subject or an attachment that no server can be given.
    Rule("INVALID_INPUT", "final", when=BadMail, name="smtp.mail"),
    # One recipient of several may be refused for now and another for good.
    Rule("MAIL_UNAVAILABLE", "retryable", when=_ERROR, message=r"\(4\d\d, b['\"]", name="smtp.4xx"),
    Rule("MAIL_LOGIN_REFUSED", "final", when="smtplib.SMTPAuthenticationError", name="smtp.login"),
    Rule("MAIL_REFUSED", "final", when=_ERROR, message=r"\(5\d\d, b['\"]", name="smtp.5xx"),
    # No STARTTLS, no login, no UTF-8 addresses: a person has to change the server or the URL.
    Rule("MAIL_UNSUPPORTED", "final", when="smtplib.SMTPNotSupportedError", name="smtp.unsupported"),
    # The connection ended, or the reply made no sense.
    Rule("MAIL_UNAVAILABLE", "retryable", when=_ERROR, name="smtp.broken"),
)

"""Errors of the operating system and the interpreter.

None of them proves a mistake in the job's input: a ValueError may be a bug that the next deploy fixes. Only a refused
permission is final.
"""

import errno

from mulligan.failure.rule import Rule

RULES: tuple[Rule, ...] = (
    Rule("DISK_FULL", "retryable", errno=(errno.ENOSPC, errno.EDQUOT), name="system.disk_full"),
    # Also what asyncio, socket and concurrent.futures raise: one class since Python 3.11.
    Rule("TIMEOUT", "retryable", when=TimeoutError, name="system.timeout"),
    Rule("NETWORK", "retryable", when=("socket.gaierror", "socket.herror"), name="system.dns"),
    Rule("NETWORK", "retryable", when=ConnectionError, name="system.connection"),
    Rule(
        "NETWORK",
        "retryable",
        errno=(
            errno.ENETUNREACH,
            errno.ENETDOWN,
            errno.ENETRESET,
            errno.EHOSTUNREACH,
            errno.EHOSTDOWN,
            errno.EADDRINUSE,
            errno.EADDRNOTAVAIL,
            errno.ENOTCONN,
            errno.ENOBUFS,
        ),
        name="system.network",
    ),
    # A person has to grant the permission, and can retry manually then.
    Rule("NOT_PERMITTED", "final", when=PermissionError, name="system.permission"),
    # The system cannot distinguish "deleted" from "not there yet" (a mount, a volume, a slow network drive). A wrong
    # final verdict loses work; a wrong retry costs a few attempts.
    Rule("FILE_MISSING", "retryable", when=FileNotFoundError, name="system.file_missing"),
    Rule("OUT_OF_MEMORY", "retryable", when=MemoryError, name="system.memory"),
    Rule("OUT_OF_MEMORY", "retryable", errno=errno.ENOMEM, name="system.no_memory"),
    Rule(
        "IO_ERROR",
        "retryable",
        errno=(
            errno.EIO,
            errno.EROFS,
            errno.EMFILE,
            errno.ENFILE,
            errno.EAGAIN,
            errno.EBUSY,
            errno.EINTR,
            errno.ENODEV,
            errno.ENXIO,
            errno.ENOLCK,
            errno.EDEADLK,
            errno.ESTALE,
            errno.ETXTBSY,
        ),
        name="system.io",
    ),
    # During a deploy, half of the program may be old.
    Rule("IMPORT_FAILED", "retryable", when=ImportError, name="system.import"),
)

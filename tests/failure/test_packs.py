"""Each rule for programs and the system is asked about an error that really happened here."""

import asyncio
import concurrent.futures
import errno
import importlib
import os
import resource
import socket
import struct
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mulligan.failure.classify import classify
from mulligan.failure.error_codes import ErrorClass
from mulligan.failure.packs import BUILT_IN, PACKS, process, system
from mulligan.failure.verdict import Failure


def refused_connection() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        socket.create_connection(unused.getsockname(), timeout=5)


def reset_connection() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    with server, socket.create_connection(server.getsockname(), timeout=5) as client:
        accepted, _ = server.accept()
        # Lingering for zero seconds makes close send a reset.
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()
        client.recv(1)


def broken_pipe() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        os.write(writer, b"x")
    finally:
        os.close(writer)


def unknown_host() -> None:
    socket.getaddrinfo("no-such-host", 80, flags=socket.AI_NUMERICHOST)


def unreachable_network() -> None:
    raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))


def address_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as second:
        second.bind(server.getsockname())


def silent_peer() -> None:
    left, right = socket.socketpair()
    with left, right:
        left.settimeout(0.01)
        left.recv(1)


def slow_coroutine() -> None:
    asyncio.run(asyncio.wait_for(asyncio.sleep(60), timeout=0.01))


def slow_future() -> None:
    concurrent.futures.Future().result(timeout=0)


def full_disk() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        full.write(b"x")


def forbidden_file(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch(0o644)
    # Even root may not execute a file without the permission.
    os.posix_spawn(plain, ["plain"], {})


def missing_file(tmp_path: Path) -> None:
    (tmp_path / "missing").read_bytes()


def too_many_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        while True:
            opened.append(os.dup(2))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in opened:
            os.close(descriptor)


def would_block() -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    try:
        os.read(reader, 1)
    finally:
        os.close(reader)
        os.close(writer)


def broken_disk() -> None:
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        os.pread(memory, 1, 0)
    finally:
        os.close(memory)


def read_only_disk() -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def no_memory() -> None:
    bytearray(2**62)


def missing_module() -> None:
    importlib.import_module("no_such_module_anywhere")


def missing_name() -> None:
    exec("from json import no_such_name")


def run(*argv: str | Path) -> None:
    subprocess.run(argv, check=True, capture_output=True)


def sh(script: str) -> Callable[[], None]:
    def run_shell() -> None:
        run("sh", "-c", script)

    run_shell.__name__ = script
    return run_shell


def slow_program() -> None:
    subprocess.run(["sleep", "60"], timeout=0.05)


def missing_program(tmp_path: Path) -> None:
    run(tmp_path / "missing")


def missing_program_by_name() -> None:
    run("no-such-program-anywhere")


def missing_program_async(tmp_path: Path) -> None:
    asyncio.run(asyncio.create_subprocess_exec(tmp_path / "missing"))


def unusable_program(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch(0o644)
    run(plain)


REALLY = [
    (refused_connection, "NETWORK", "retryable", "system.connection"),
    (reset_connection, "NETWORK", "retryable", "system.connection"),
    (broken_pipe, "NETWORK", "retryable", "system.connection"),
    (unknown_host, "NETWORK", "retryable", "system.dns"),
    (unreachable_network, "NETWORK", "retryable", "system.network"),
    (address_in_use, "NETWORK", "retryable", "system.network"),
    (silent_peer, "TIMEOUT", "retryable", "system.timeout"),
    (slow_coroutine, "TIMEOUT", "retryable", "system.timeout"),
    (slow_future, "TIMEOUT", "retryable", "system.timeout"),
    (full_disk, "DISK_FULL", "retryable", "system.disk_full"),
    (forbidden_file, "NOT_PERMITTED", "final", "system.permission"),
    (missing_file, "FILE_MISSING", "retryable", "system.file_missing"),
    (too_many_files, "IO_ERROR", "retryable", "system.io"),
    (would_block, "IO_ERROR", "retryable", "system.io"),
    (broken_disk, "IO_ERROR", "retryable", "system.io"),
    (read_only_disk, "IO_ERROR", "retryable", "system.io"),
    (no_memory, "OUT_OF_MEMORY", "retryable", "system.memory"),
    (missing_module, "IMPORT_FAILED", "retryable", "system.import"),
    (missing_name, "IMPORT_FAILED", "retryable", "system.import"),
    (slow_program, "TIMEOUT", "retryable", "process.timeout"),
    (sh("kill -9 $$"), "OUT_OF_MEMORY", "retryable", "process.killed"),
    (sh("sh -c 'kill -9 $$'; exit $?"), "OUT_OF_MEMORY", "retryable", "process.killed"),
    (sh("kill -SEGV $$"), "PROGRAM_CRASHED", "retryable", "process.segfault"),
    (sh("sh -c 'kill -SEGV $$'; exit $?"), "PROGRAM_CRASHED", "retryable", "process.segfault"),
    (sh("no-such-program-anywhere"), "PROGRAM_MISSING", "retryable", "process.missing"),
    (sh("/"), "PROGRAM_MISSING", "retryable", "process.missing"),
    (missing_program, "PROGRAM_MISSING", "retryable", "process.not_started"),
    (missing_program_by_name, "PROGRAM_MISSING", "retryable", "process.not_started"),
    (missing_program_async, "PROGRAM_MISSING", "retryable", "process.not_started"),
    (unusable_program, "PROGRAM_MISSING", "retryable", "process.not_started"),
    (sh("kill -TERM $$"), "PROGRAM_FAILED", "retryable", "process.signal"),
    (sh("sh -c 'kill -TERM $$'; exit $?"), "PROGRAM_FAILED", "retryable", "process.signal"),
    (sh("exit 1"), "PROGRAM_FAILED", "retryable", "process.exit"),
    (sh("exit 255"), "PROGRAM_FAILED", "retryable", "process.exit"),
]


def provoked(cause: Callable[..., None], tmp_path: Path) -> Failure:
    try:
        cause(tmp_path) if "tmp_path" in cause.__annotations__ else cause()
    except Exception as error:
        return Failure.of(error)
    pytest.fail(f"{cause.__name__} did not fail")


@pytest.mark.parametrize(("cause", "code", "error_class", "rule"), REALLY, ids=[cause.__name__ for cause, *_ in REALLY])
def test_what_really_happens_is_recognised(cause: Any, code: str, error_class: str, rule: str, tmp_path: Path) -> None:
    failure = provoked(cause, tmp_path)
    seen = classify(failure, kind="any", rules=PACKS)
    remembered = classify(replace(failure, exception=None), kind="any", rules=PACKS)
    assert (seen.code, seen.error_class, seen.rule) == (code, error_class, rule)
    assert (remembered.code, remembered.rule) == (code, rule)
    assert not seen.notes


@pytest.mark.parametrize(
    "exception", [ValueError("x"), TypeError("x"), KeyError("x"), AssertionError(), ZeroDivisionError()]
)
def test_a_bug_is_tried_again_for_the_next_deploy_may_mend_it(exception: Any) -> None:
    verdict = classify(Failure.of(exception), kind="any", rules=PACKS)
    assert (verdict.code, verdict.error_class) == ("UNKNOWN", ErrorClass.RETRYABLE)


def test_every_rule_of_the_packs_is_named_and_shown_here() -> None:
    names = [rule.name for rule in (*process.RULES, *system.RULES)]
    unshown = {"system.no_memory"}  # the kernel would have to be out of memory
    assert set(names) - {rule for *_, rule in REALLY} == unshown


def test_every_rule_has_a_name_of_its_own_that_begins_with_its_pack() -> None:
    assert len({rule.name for rule in PACKS}) == len(PACKS)
    assert all(rule.name.startswith(f"{pack}.") for pack, rules in BUILT_IN.items() for rule in rules)


def test_the_kernel_out_of_memory_is_recognised() -> None:
    verdict = classify(Failure.of(OSError(errno.ENOMEM, "Cannot allocate memory")), kind="any", rules=PACKS)
    assert verdict.code == "OUT_OF_MEMORY"

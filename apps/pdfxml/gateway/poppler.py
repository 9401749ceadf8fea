"""Run poppler's `pdftotext` on a file and read the layout that it finds."""

import asyncio
import contextlib
from pathlib import Path

from lxml import etree

# More than this is no text of a document, but an attack on our memory.
LARGEST_LAYOUT = 256 * 2**20
XHTML = "{http://www.w3.org/1999/xhtml}"


class Unconvertible(Exception):
    """The file cannot be converted, however often it is tried. The message is for people."""


class ConverterFailed(Exception):
    """The converter itself failed: it may succeed with the same file later."""


async def read_layout(path: Path, *, seconds: float) -> "etree._Element":
    """Pages, blocks, lines and words of a PDF file. Raises Unconvertible, ConverterFailed or TimeoutError."""
    output = await _run("pdftotext", "-bbox-layout", "-enc", "UTF-8", str(path), "-", seconds=seconds)
    parser = etree.XMLParser(recover=True, resolve_entities=False, no_network=True, huge_tree=True)
    root = await asyncio.to_thread(etree.fromstring, output, parser)
    if root is None or root.find(f".//{XHTML}doc") is None:
        raise ConverterFailed("the converter printed no document")
    return root


async def _run(*command: str, seconds: float) -> bytes:
    pipe = asyncio.subprocess.PIPE
    try:
        program = await asyncio.create_subprocess_exec(
            *command, stdout=pipe, stderr=pipe, stdin=asyncio.subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise ConverterFailed(f"{command[0]} is not installed") from None
    try:
        async with asyncio.timeout(seconds):
            assert program.stdout is not None and program.stderr is not None
            output, problems = await asyncio.gather(_bounded(program.stdout), _start_of(program.stderr))
            status = await program.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            program.kill()
        await program.wait()
    if status != 0:
        raise _judge(status, problems.decode(errors="replace"))
    return output


async def _bounded(stream: asyncio.StreamReader) -> bytes:
    chunks, size = [], 0
    while chunk := await stream.read(2**16):
        chunks.append(chunk)
        size += len(chunk)
        if size > LARGEST_LAYOUT:
            raise Unconvertible("The file has too much text.")
    return b"".join(chunks)


async def _start_of(stream: asyncio.StreamReader) -> bytes:
    """The first problems. All are read: a program that cannot write does not end."""
    start = b""
    while chunk := await stream.read(2**16):
        start = (start + chunk)[:10_000]
    return start


def _judge(status: int, problems: str) -> Exception:
    """Poppler's own exit statuses are about the file; anything else, such as a signal, is about the converter."""
    if "Incorrect password" in problems or status == 3:
        return Unconvertible("The file is encrypted.")
    if "page count 0" in problems or status == 99:
        return Unconvertible("The file has no pages.")
    if status == 1:
        return Unconvertible("The file is damaged.")
    return ConverterFailed(f"the converter ended with status {status}")

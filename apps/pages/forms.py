"""Read what a browser sends: the fields of a form, or a file that is stored while it comes in."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any

from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from apps.pages.csrf import FIELD, check_token
from apps.pages.problems import Problem

LARGEST_FORM = 2**20
# One field beside a file.
LARGEST_FIELD = 2**16
MOST_FIELDS = 50
LONGEST_NAME = 200


class TooLarge(Exception):
    """The file has more than `limit` bytes. `size` bytes, its name and the fields before it were read."""

    def __init__(self, limit: int, *, name: str = "", size: int = 0, fields: dict[str, str] | None = None) -> None:
        super().__init__(f"more than {limit} bytes")
        self.limit, self.name, self.size, self.fields = limit, name, size, fields or {}


class NotStored(OSError):
    """The file could not be written. Its name and the fields before it were read."""

    def __init__(self, error: OSError, *, name: str, size: int, fields: dict[str, str]) -> None:
        super().__init__(error.errno, error.strerror)
        self.name, self.size, self.fields = name, size, fields


@dataclass(frozen=True, slots=True)
class Upload:
    """A file as it was stored at `path`, and the fields beside it. `name` is the last part of what the browser calls
    it: for people, never for a path."""

    path: Path
    name: str
    size: int
    sha256: str
    fields: dict[str, str]


async def read_form(request: Request, *, largest: int = LARGEST_FORM) -> dict[str, str]:
    """The fields of a form of this session, which has at most `largest` bytes. Of fields with the same name, the
    last."""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise Problem(415, "VALIDATION_ERROR", "a form is expected")
    await _read_bounded(request, largest)
    form = await request.form(max_fields=MOST_FIELDS, max_part_size=largest)
    fields = {name: str(value) for name, value in form.items()}
    check_token(request, fields.pop(FIELD, ""))
    return fields


async def _read_bounded(request: Request, largest: int) -> None:
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > largest:
            raise Problem(413, "TOO_LARGE", f"a form has at most {largest:,} bytes")
        pieces.append(piece)
    request._body = b"".join(pieces)


async def read_upload(
    request: Request,
    folder: Path,
    *,
    field: str = "file",
    limit: int,
    largest_field: int = LARGEST_FIELD,
    needs_token: bool = True,
) -> Upload:
    """Store the file of a multipart form in the folder. The caller moves or deletes the file; after an
    error there is none. Raises TooLarge, NotStored, and Problem for what is no such form; OSError if there is no
    folder to write to."""
    with _new_file(folder) as file:
        reader = _Reader(file, field, limit, largest_field)
        await _parse(request, reader)
        if needs_token:
            check_token(request, reader.fields.pop(FIELD, ""))
        return reader.finish(Path(file.name))


@contextmanager
def _new_file(folder: Path) -> Iterator[IO[bytes]]:
    """Deleted if the block raises."""
    with NamedTemporaryFile(dir=folder, prefix="upload-", delete=False) as file:
        try:
            yield file
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


async def _parse(request: Request, reader: "_Reader") -> None:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise Problem(400, "VALIDATION_ERROR", "a form with a file is expected")
    try:
        parser, size = MultipartParser(options[b"boundary"], reader.callbacks()), 0  # type: ignore[arg-type]
        async for piece in request.stream():
            parser.write(piece)
            size += len(piece)
            # Fields without end, each of them small.
            if size > reader.limit + LARGEST_FORM:
                raise Problem(413, "TOO_LARGE", f"the fields of a form have at most {LARGEST_FORM:,} bytes")
        parser.finalize()
    except ValueError:
        raise Problem(400, "VALIDATION_ERROR", "the form is damaged") from None
    except ClientDisconnect:
        raise Problem(400, "VALIDATION_ERROR", "the upload was interrupted") from None


@dataclass(slots=True)
class _Reader:
    """Takes the parts of a form one after the other."""

    file: IO[bytes]
    wanted: str
    limit: int
    largest_field: int
    fields: dict[str, str] = field(default_factory=dict)
    name: str | None = None
    size: int = 0
    _digest: Any = field(default_factory=sha256)
    _headers: dict[bytes, bytes] = field(default_factory=dict)
    _header: list[bytes] = field(default_factory=lambda: [b"", b""])
    _part: str = ""
    _value: bytes = b""
    _is_file: bool = False

    def callbacks(self) -> dict[str, Callable[..., None]]:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._header_name,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_end,
            "on_part_data": self._data,
            "on_part_end": self._end,
        }

    def finish(self, path: Path) -> Upload:
        if self.name is None:
            raise Problem(400, "VALIDATION_ERROR", f"the form has no file called {self.wanted}")
        self._store(self.file.flush)
        return Upload(path, self.name, self.size, self._digest.hexdigest(), self.fields)

    def _begin(self) -> None:
        self._headers, self._value = {}, b""

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._header[0] += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._header[1] += data[start:end]

    def _header_end(self) -> None:
        name, value = self._header
        self._headers[name.lower()], self._header = value, [b"", b""]

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        self._part = options.get(b"name", b"").decode("utf-8", "replace")
        self._is_file = b"filename" in options and self._part == self.wanted and self.name is None
        if self._is_file:
            self.name = plain_name(options[b"filename"].decode("utf-8", "replace"))

    def _data(self, data: bytes, start: int, end: int) -> None:
        piece = data[start:end]
        if not self._is_file:
            self._value += piece
            if len(self._value) > self.largest_field:
                raise Problem(413, "TOO_LARGE", f"the field {self._part:.50} is too long")
            return
        self.size += len(piece)
        if self.size > self.limit:
            raise TooLarge(self.limit, name=self.name or "", size=self.size, fields=self.fields)
        self._digest.update(piece)
        self._store(lambda: self.file.write(piece))

    def _store(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            raise NotStored(error, name=self.name or "", size=self.size, fields=self.fields) from error

    def _end(self) -> None:
        if not self._is_file and len(self.fields) < MOST_FIELDS:
            self.fields[self._part] = self._value.decode("utf-8", "replace")


def plain_name(given: str) -> str:
    """The last part of a path, without what a terminal or a header could be tricked with."""
    last = re.split(r"[/\\]", given)[-1]
    return "".join(letter if letter.isprintable() else "_" for letter in last)[:LONGEST_NAME].strip() or "file"

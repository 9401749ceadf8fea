"""The files of the pages: stylesheet, scripts. Each has the hash of its content in its address, so browsers keep it."""

import gzip
import mimetypes
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

FOLDER = Path(__file__).with_name("static")
SERVED = (".css", ".js", ".svg")
HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
    "Vary": "Accept-Encoding",
}


@dataclass(frozen=True)
class StaticFile:
    body: bytes
    media_type: str

    @cached_property
    def version(self) -> str:
        return sha256(self.body).hexdigest()[:12]

    @cached_property
    def compressed(self) -> bytes:
        return gzip.compress(self.body, mtime=0)


@dataclass(slots=True)
class StaticFiles:
    files: dict[str, StaticFile] = field(default_factory=lambda: _read(FOLDER))

    def path(self, name: str) -> str:
        return f"/static/{name}?{self.files[name].version}"

    async def serve(self, request: Request) -> Response:
        found = self.files.get(request.path_params["name"])
        if found is None:
            return Response(status_code=404)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers = HEADERS | {"Content-Encoding": "gzip"}
            return Response(found.compressed, media_type=found.media_type, headers=headers)
        return Response(found.body, media_type=found.media_type, headers=HEADERS)


def _read(folder: Path) -> dict[str, StaticFile]:
    paths = sorted(path for path in folder.iterdir() if path.suffix in SERVED)
    return {path.name: StaticFile(path.read_bytes(), mimetypes.types_map[path.suffix]) for path in paths}

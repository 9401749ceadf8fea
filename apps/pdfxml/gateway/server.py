"""The routes of the gateway."""

import logging
import tempfile
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from apps.pdfxml.gateway.faults import Fault, FaultInjection
from apps.pdfxml.gateway.mappings import MAPPINGS
from apps.pdfxml.gateway.poppler import ConverterFailed, Unconvertible, read_layout

logger = logging.getLogger("pdfxml.gateway")
LARGEST = 50 * 2**20
# Some programs write these before the header.
BLANKS = b"\xef\xbb\xbf \t\r\n\x00"


class Refused(Exception):
    """The request cannot be carried out. The message is for people."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def convert(request: Request) -> Response:
    """`POST /convert?mapping=text` with a PDF file as the body."""
    mapping = MAPPINGS.get(request.query_params.get("mapping", ""))
    if mapping is None:
        raise Refused(406, "Unsupported mapping.")
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/pdf":
        raise Refused(415, "The body must be a PDF file.")
    with tempfile.TemporaryDirectory(prefix="gateway-") as folder:
        path = await _receive(request, Path(folder) / "source.pdf")
        layout = await read_layout(path, seconds=request.app.state.seconds)
        return Response(mapping.convert(layout), media_type="application/xml")


async def _receive(request: Request, path: Path) -> Path:
    size, start = 0, b""
    with path.open("wb") as file:
        async for chunk in request.stream():
            size += len(chunk)
            if size > LARGEST:
                raise Refused(413, "The file is too large.")
            start = start if len(start) >= 1024 else start + chunk[:1024]
            file.write(chunk)
    if not start.lstrip(BLANKS).startswith(b"%PDF-"):
        raise Refused(415, "The body must be a PDF file.")
    return path


async def health(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def mappings(_request: Request) -> Response:
    return JSONResponse({"mappings": [{"name": each.name, "about": each.about} for each in MAPPINGS.values()]})


async def control(request: Request) -> Response:
    """`PUT /faults` with `{"kind": "status", "status": 503}` switches a fault on, `DELETE /faults` off."""
    faults: FaultInjection = request.app.state.faults
    if request.method == "PUT":
        try:
            faults.set(Fault.read(await request.json()))
        except (TypeError, ValueError) as problem:
            raise Refused(422, str(problem)) from None
    elif request.method == "DELETE":
        faults.set(None)
    fault = None if faults.fault is None else faults.fault.kind
    return JSONResponse({"fault": fault, "met": faults.met})


def create_gateway(*, seconds: float = 25, has_faults: bool = False) -> ASGIApp:
    """The gateway as an ASGI application. Its control route exists only if faults are asked for."""
    routes = [
        Route("/convert", convert, methods=["POST"]),
        Route("/health", health),
        Route("/mappings", mappings),
        *([Route("/faults", control, methods=["GET", "PUT", "DELETE"])] if has_faults else []),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            Refused: _refuse,
            Unconvertible: _refuse,
            TimeoutError: _give_up,
            ConverterFailed: _fail,
            ClientDisconnect: _give_up,
        },
    )
    app.state.seconds = seconds
    app.state.faults = faults = FaultInjection(app)
    return faults if has_faults else app


async def _refuse(_request: Request, error: Exception) -> Response:
    return JSONResponse({"message": str(error)}, status_code=error.status if isinstance(error, Refused) else 422)


async def _give_up(_request: Request, _error: Exception) -> Response:
    return JSONResponse({"message": "The conversion took too long."}, status_code=408)


async def _fail(_request: Request, error: Exception) -> Response:
    logger.error("%s", error)
    return JSONResponse({"message": "The converter failed."}, status_code=500)

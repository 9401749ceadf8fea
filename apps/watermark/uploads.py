"""Videos that people send: stored while they come in, then kept where their rows say."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.requests import Request

from apps.pages.forms import TooLarge, Upload, read_upload
from apps.pages.problems import Problem
from apps.watermark.app import Watermark
from apps.watermark.forms import LARGEST_FIELD

log = logging.getLogger("apps.watermark")


async def read_video(request: Request, watermark: Watermark) -> Upload:
    """The field `video`. Raises Problem."""
    limit = watermark.options.largest_upload
    try:
        return await read_upload(
            request, watermark.files.folder, field="video", limit=limit, largest_field=LARGEST_FIELD
        )
    except TooLarge:
        raise Problem(413, "TOO_LARGE", f"A video has at most {limit / 2**20:,.0f} MiB.") from None
    except OSError as error:
        raise _not_stored(error) from error


@contextmanager
def kept(watermark: Watermark, upload: Upload, target: Path) -> Iterator[None]:
    """The upload is at its place while the block stores its row, and gone if that fails. Raises Problem."""
    try:
        watermark.files.keep(upload.path, target)
    except OSError as error:
        raise _not_stored(error) from error
    try:
        yield
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _not_stored(error: OSError) -> Problem:
    log.error("an upload was not stored: %s", error)
    return Problem(500, "IO_ERROR", "The video could not be stored here. Nothing was kept: send it again later.")

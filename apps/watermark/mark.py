"""The invisible mark: a pattern of slightly lighter and darker cells, another one for each recipient.

The pattern covers the whole picture as a fixed grid, so it survives scaling. It is found again without the original:
the picture changes from frame to frame and the mark does not, and a wrong pattern correlates with nothing.
"""

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

import numpy

COLUMNS, ROWS = 96, 54
# Steps of luminance of 255: below what an eye sees in moving pictures, above what CRF 28 removes.
STRENGTH = 3
# A score is in standard deviations of what chance gives. Chance reaches 6 once in a billion tries.
THRESHOLD = 6.0
_GREY = 128
# An edge in the picture must not outweigh the mark.
_LARGEST_RESIDUE = 6.0

Grid: TypeAlias = "numpy.typing.NDArray[numpy.float32]"


@lru_cache(maxsize=2_000)
def pattern(token: str) -> Grid:
    """The cells of a token, each 1 or -1."""
    digest = hashlib.shake_256(f"mulligan watermark {token}".encode()).digest(COLUMNS * ROWS // 8)
    bits = numpy.unpackbits(numpy.frombuffer(digest, numpy.uint8))
    return (bits.astype(numpy.float32) * 2 - 1).reshape(ROWS, COLUMNS)


def to_frame(token: str) -> bytes:
    """The pattern as one frame of raw yuv420p video, grey where it adds nothing."""
    luminance = (_GREY + STRENGTH * pattern(token)).astype(numpy.uint8)
    return luminance.tobytes() + bytes([_GREY]) * (COLUMNS * ROWS // 2)


def score(frames: bytes, tokens: Iterable[str]) -> dict[str, float]:
    """How strongly the pattern of each token is in these grey frames of COLUMNS by ROWS cells."""
    found = _normalize(_residue(_to_grids(frames)))
    scale = float(numpy.sqrt(COLUMNS * ROWS))
    return {token: float((found * _filtered(token)).sum()) * scale for token in tokens}


def _to_grids(frames: bytes) -> Grid:
    size = COLUMNS * ROWS
    whole = len(frames) // size * size
    return numpy.frombuffer(frames[:whole], numpy.uint8).reshape(-1, ROWS, COLUMNS).astype(numpy.float32)


def _residue(grids: Grid) -> Grid:
    """What of each cell its neighbours do not explain, on average over the frames."""
    if not len(grids):
        return numpy.zeros((ROWS, COLUMNS), numpy.float32)
    kept = numpy.clip(grids - _neighbours(grids), -_LARGEST_RESIDUE, _LARGEST_RESIDUE)
    return numpy.asarray(kept.mean(axis=0), numpy.float32)


def _neighbours(grids: Grid) -> Grid:
    """The mean of the eight cells around each cell."""
    padded = numpy.pad(grids, ((0, 0), (1, 1), (1, 1)), mode="edge")
    around = [(row, column) for row in range(3) for column in range(3) if (row, column) != (1, 1)]
    total = sum(padded[:, row : row + ROWS, column : column + COLUMNS] for row, column in around)
    return numpy.asarray(total / len(around), numpy.float32)


def _normalize(grid: Grid) -> Grid:
    centred = grid - grid.mean()
    length = float(numpy.sqrt((centred**2).sum()))
    return numpy.asarray(centred / (length or 1.0), numpy.float32)


@lru_cache(maxsize=2_000)
def _filtered(token: str) -> Grid:
    return _normalize(_residue(pattern(token)[numpy.newaxis]))

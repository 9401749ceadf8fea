"""Real PDF files, good and bad, made byte by byte."""

import io
import zipfile
from collections.abc import Sequence

import pypdf


def make_pdf(*pages: Sequence[str]) -> bytes:
    """A PDF file with these lines on its pages."""
    font = 3 + 2 * len(pages)
    kids = " ".join(f"{3 + 2 * number} 0 R" for number in range(len(pages)))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>"]
    for number, lines in enumerate(pages):
        resources = f"<< /Font << /F1 {font} 0 R >> >>"
        box = "/MediaBox [0 0 595 842]"
        objects.append(f"<< /Type /Page /Parent 2 0 R {box} /Contents {4 + 2 * number} 0 R /Resources {resources} >>")
        text = "BT /F1 12 Tf 14 TL 50 780 Td " + " ".join(f"({line}) Tj T*" for line in lines) + " ET"
        objects.append(f"<< /Length {len(text)} >>\nstream\n{text}\nendstream")
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    return _assemble(objects)


def _assemble(objects: Sequence[str]) -> bytes:
    file, places = bytearray(b"%PDF-1.4\n"), []
    for number, each in enumerate(objects, start=1):
        places.append(len(file))
        file += f"{number} 0 obj\n{each}\nendobj\n".encode()
    start = len(file)
    file += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    file += b"".join(f"{place:010} 00000 n \n".encode() for place in places)
    file += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(file)


def unique_pdf(number: int) -> bytes:
    return make_pdf([f"Document {number}", "Total: 10 & <b>"])


INVOICE = make_pdf(["Invoice 42", "Total: 10 & <b>", "", "Thank you"], ["Page two"])
NO_PAGES = make_pdf()
TRUNCATED = INVOICE[:200]


def _encrypt() -> bytes:
    writer, target = pypdf.PdfWriter(clone_from=io.BytesIO(INVOICE)), io.BytesIO()
    writer.encrypt("secret")
    writer.write(target)
    return target.getvalue()


def _zip() -> bytes:
    """A zip file with a PDF file in it, as it is."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("a.pdf", INVOICE)
    return target.getvalue()


ENCRYPTED, ZIP = _encrypt(), _zip()

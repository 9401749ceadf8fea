"""The mappings: what XML is made of the layout of a document. Each has a schema that its output must fit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lxml import etree

from apps.pdfxml.gateway.poppler import XHTML, ConverterFailed

SCHEMAS = Path(__file__).parent / "schemas"


def map_text(layout: "etree._Element") -> "etree._Element":
    """The text alone, page by page, a paragraph for each block."""
    root = etree.Element("document")
    for number, page in enumerate(layout.iter(f"{XHTML}page"), start=1):
        target = etree.SubElement(root, "page", number=str(number))
        for block in page.iter(f"{XHTML}block"):
            etree.SubElement(target, "paragraph").text = " ".join(_words(block))
    return root


def map_layout(layout: "etree._Element") -> "etree._Element":
    """Every line with its place on the page, in points from the top left corner."""
    root = etree.Element("layout", unit="pt")
    for number, page in enumerate(layout.iter(f"{XHTML}page"), start=1):
        size = {name: _number(page, name) for name in ("width", "height")}
        target = etree.SubElement(root, "page", {"number": str(number), **size})
        for block in page.iter(f"{XHTML}block"):
            group = etree.SubElement(target, "block", _box(block))
            for line in block.iter(f"{XHTML}line"):
                etree.SubElement(group, "line", _box(line)).text = " ".join(_words(line))
    return root


def _words(element: "etree._Element") -> list[str]:
    return [word.text for word in element.iter(f"{XHTML}word") if word.text]


def _box(element: "etree._Element") -> dict[str, str]:
    left, top, right, bottom = (float(element.get(name, "0")) for name in ("xMin", "yMin", "xMax", "yMax"))
    box = {"x": left, "y": top, "width": max(0.0, right - left), "height": max(0.0, bottom - top)}
    return {name: f"{value:.2f}" for name, value in box.items()}


def _number(element: "etree._Element", name: str) -> str:
    return f"{float(element.get(name, '0')):.2f}"


@dataclass(frozen=True)
class XmlMapping:
    """A way to write a document as XML."""

    name: str
    about: str
    write: "Callable[[etree._Element], etree._Element]"

    @cached_property
    def schema(self) -> etree.XMLSchema:
        return etree.XMLSchema(etree.parse(SCHEMAS / f"{self.name}.xsd"))

    def convert(self, layout: "etree._Element") -> bytes:
        """The document as XML that fits the schema. Raises ConverterFailed if it does not."""
        root = self.write(layout)
        if not self.schema.validate(root):
            raise ConverterFailed(f"the output does not fit {self.name}.xsd: {self.schema.error_log}")
        return etree.tostring(root, encoding="UTF-8", xml_declaration=True, pretty_print=True)


MAPPINGS: Mapping[str, XmlMapping] = {
    mapping.name: mapping
    for mapping in (
        XmlMapping("text", "Text: paragraphs, page by page", map_text),
        XmlMapping("layout", "Layout: every line with its place on the page", map_layout),
    )
}

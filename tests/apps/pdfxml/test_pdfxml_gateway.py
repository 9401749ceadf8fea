"""The gateway: a real converter, mappings with schemas, and faults in front of it."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest
from apps.pdfxml.gateway.mappings import MAPPINGS, SCHEMAS
from apps.pdfxml.mapping_list import MappingList
from lxml import etree
from pdfxml_files import ENCRYPTED, INVOICE, NO_PAGES, TRUNCATED, ZIP
from pdfxml_world import Gateway


def convert(
    gateway: Gateway, content: bytes = INVOICE, mapping: str = "text", kind: str = "application/pdf"
) -> httpx.Response:
    headers = {"content-type": kind}
    return httpx.post(f"{gateway.url}/convert", params={"mapping": mapping}, content=content, headers=headers)


def test_p2_the_mappings_differ_and_fit_their_schemas(gateway: Gateway) -> None:
    found = {}
    for name in MAPPINGS:
        answer = convert(gateway, mapping=name)
        assert answer.status_code == 200
        found[name] = root = etree.fromstring(answer.content)
        etree.XMLSchema(etree.parse(SCHEMAS / f"{name}.xsd")).assertValid(root)
        assert "Invoice 42" in " ".join(root.itertext())
    assert len(found) >= 2
    assert len({root.tag for root in found.values()}) == len(found)


def test_p2_text_has_the_paragraphs_and_layout_the_places(gateway: Gateway) -> None:
    text = etree.fromstring(convert(gateway).content)
    assert [each.text for each in text.iter("paragraph")] == ["Invoice 42 Total: 10 & <b>", "Thank you", "Page two"]
    layout = etree.fromstring(convert(gateway, mapping="layout").content)
    assert [page.get("width") for page in layout.iter("page")] == ["595.00", "595.00"]
    assert [line.text for line in layout.iter("line")][:2] == ["Invoice 42", "Total: 10 & <b>"]


def test_p2_an_unknown_mapping_is_a_406(gateway: Gateway) -> None:
    answer = convert(gateway, mapping="nonsense")
    assert (answer.status_code, answer.json()["message"]) == (406, "Unsupported mapping.")


@pytest.mark.parametrize(
    ("content", "kind", "status", "message"),
    [
        (NO_PAGES, "application/pdf", 422, "The file has no pages."),
        (TRUNCATED, "application/pdf", 422, "The file is damaged."),
        (ENCRYPTED, "application/pdf", 422, "The file is encrypted."),
        (ZIP, "application/pdf", 415, "The body must be a PDF file."),
        (b"", "application/pdf", 415, "The body must be a PDF file."),
        (INVOICE, "application/zip", 415, "The body must be a PDF file."),
    ],
    ids=["no pages", "truncated", "encrypted", "zip", "empty", "type"],
)
def test_what_cannot_be_converted_is_refused_in_plain_words(
    gateway: Gateway, content: bytes, kind: str, status: int, message: str
) -> None:
    answer = convert(gateway, content, kind=kind)
    assert (answer.status_code, answer.json()) == (status, {"message": message})


def test_faults_are_in_front_of_the_same_converter(gateway: Gateway) -> None:
    gateway.fail(status=503, times=1)
    assert [convert(gateway).status_code for _ in range(2)] == [503, 200]
    gateway.fail(status=500, share=0.25)
    assert [convert(gateway).status_code for _ in range(8)].count(500) == 2
    assert httpx.get(f"{gateway.url}/health").status_code == 200
    gateway.fail(status=500)
    assert httpx.get(f"{gateway.url}/health").status_code == 500


def test_a_connection_breaks_off(gateway: Gateway) -> None:
    gateway.fail("drop")
    with pytest.raises(httpx.RemoteProtocolError):
        convert(gateway)


def test_the_mappings_to_choose_from_are_those_of_the_gateway(gateway: Gateway) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    offered = MappingList(gateway.url, now=lambda: now)
    assert [each.name for each in offered.current()] == list(MAPPINGS)
    gateway.kill()
    now += timedelta(minutes=5)
    assert [each.name for each in offered.current()] == list(MAPPINGS), "the last list stays"
    without = MappingList(gateway.url, now=lambda: now)
    assert without.current() == ()
    gateway.start()
    assert without.current() == (), "not asked again for every page"
    now += timedelta(seconds=5)
    assert [each.name for each in without.current()] == list(MAPPINGS)


def test_without_being_asked_for_there_is_no_control_route() -> None:
    from apps.pdfxml.gateway.server import create_gateway
    from starlette.testclient import TestClient

    assert TestClient(create_gateway()).put("/faults", json={"kind": "hang"}).status_code == 404

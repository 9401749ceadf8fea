"""The reference of the HTTP API says what the code does."""

import docs_http


def test_the_page_is_as_the_code_is() -> None:
    assert docs_http.PAGE.read_text("utf-8") == docs_http.page(), "run `make docs`"

"""Screenshots and PDFs of web pages, over an HTTP API and a page, paid with credits."""

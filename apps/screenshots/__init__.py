"""Take screenshots of web pages for owners who pay with credits."""

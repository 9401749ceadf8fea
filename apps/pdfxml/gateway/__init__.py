"""The gateway: an HTTP server around poppler that turns a PDF file into XML, and can be made to fail."""

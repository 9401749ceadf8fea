"""Convert PDF files to XML through a gateway that may fail."""

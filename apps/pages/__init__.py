"""What all applications share: sessions, forms, accounts, live pages, the layout, the command line."""

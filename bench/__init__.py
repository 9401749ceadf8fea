"""How fast mulligan is, beside its peers and beside a bare loop over its own tables. See README.md."""

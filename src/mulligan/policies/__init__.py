"""Policies at run time: a YAML file that overrides the code, per kind and owner, without a restart."""

"""The demo: real jobs, real workers, and a real gateway that fails in several ways. `mulligan demo` runs it."""

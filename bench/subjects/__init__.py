"""Who is measured, as seen by whoever measures: one file each."""

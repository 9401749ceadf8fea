"""What a person can do and ask, one file a subject: used by App, CLI, HTTP and pages alike."""

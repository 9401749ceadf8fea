"""Tasks: functions whose calls become durable jobs. Typed by the signature of the function."""

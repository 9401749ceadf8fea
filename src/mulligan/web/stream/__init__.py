"""The event log as a stream of server-sent events. One reader per process serves all streams."""

:now

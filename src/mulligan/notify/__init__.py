"""Messages to people and machines: webhooks and mails."""

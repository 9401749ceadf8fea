"""The outage drill: two services go down under load, one with breaker, budget and pace, one with backoff alone."""

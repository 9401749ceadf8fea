"""Watermark a video for each recipient of a campaign, and find out who leaked a copy."""

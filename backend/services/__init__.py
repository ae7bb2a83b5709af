"""What the API does: submission, previews, lists, series, logs, live notices. Synchronous, on worker
threads."""

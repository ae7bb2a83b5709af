"""One script per question, run by `make bench`."""

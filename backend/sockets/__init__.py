"""The server's connections: how many there may be, and how long a request may take to come."""

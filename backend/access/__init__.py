"""Who may use the service: the server's token, wrong guesses at it, and which addresses only this machine reaches.

Nothing here needs the server's packages, because the command line and the client use it, too. `services/access.py` and
`api/gate.py` act on it.
"""

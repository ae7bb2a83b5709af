"""Who may use the service and for what: tokens, roles and what each may do, wrong guesses, and which addresses only
this machine reaches.

Nothing here needs the server's packages, because the command line and the client use it, too. `services/access.py` and
`api/gate.py` act on it.
"""

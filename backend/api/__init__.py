"""The REST API: thin routes over `backend.services`. One file per group; every one is listed in
`router.py`."""

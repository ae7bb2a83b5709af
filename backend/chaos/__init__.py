"""Kill rounds: a real server, real jobs, kill -9 at random moments, and what must hold afterwards.

    python -m backend.chaos --rounds 200 --seed 7

`script` draws what happens in a round, `victims` finds and kills, `service` is the server under test, `witness`
stands between supervisors and server and remembers what was acknowledged, `lineage` remembers which processes there
were, `checks` says what is wrong afterwards.
"""

"""Telemetry: what every layer did, when, and how many bytes it moved. NumPy and the standard library only.

events.py       the event: columns, kinds, tracks       recorder.py   what a worker calls
totals.py       sums per step, layer and kind           spread.py     bytes per link, layer and 10 ms
detail.py       which steps keep every event            sampler.py    byte counters of an interface
batch.py        one batch as bytes                      spool.py      batches on local disk
uploader.py     from the spool to the server            definitions.py  every figure's meaning
"""

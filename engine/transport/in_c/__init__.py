"""The data plane in C: the I/O thread of an endpoint, which never takes Python's interpreter lock.

`build` compiles it where there is a compiler, `library` declares it to ctypes, `loop` is what an endpoint uses. The
Python files beside this folder are its specification: the wire, the order of sending, credit and pacing are the same,
and a process with one talks to a process with the other.
"""

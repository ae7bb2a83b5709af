"""Simulate: a plan's machines on a clock that jumps, with numbers in place of tensors.

Order, bytes and times of every message come out without a process, a socket or torch.
"""

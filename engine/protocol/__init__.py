"""Protocol: what every party of an exchange does, without threads, sockets, tensors or clocks.

A machine is told of events and answers with instructions. Two drivers carry these out: the runtime's, with tensors and
the transport, and the virtual one, with numbers and a clock that jumps. So the order of messages is written once, and
the service may ask it.
"""

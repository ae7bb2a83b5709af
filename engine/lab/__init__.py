"""Several hosts on one machine: network namespaces behind a switch, their links shaped in both directions.

Linux with iproute2 and the right to make namespaces; `permitted` says what is lacking. No torch here.
"""

from engine.lab.lab import Lab, address
from engine.lab.links import INTERFACE, Link
from engine.lab.namespace import LabError
from engine.lab.owner import owned, sweep
from engine.lab.permission import permitted

__all__ = ["INTERFACE", "Lab", "LabError", "Link", "address", "owned", "permitted", "sweep"]

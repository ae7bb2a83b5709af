"""Builds the data plane in C and says where it is."""

import sys

from engine.transport.in_c.build import BuildError, build

try:
    print(build())
except BuildError as error:
    sys.exit(f"the data plane in C cannot be made: {error}")

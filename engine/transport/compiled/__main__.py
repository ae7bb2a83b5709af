"""Builds the compiled data plane and says where it is."""

import sys

from engine.transport.compiled.build import BuildError, build

try:
    print(build())
except BuildError as error:
    sys.exit(f"the compiled data plane cannot be made: {error}")

"""Builds the compiled data plane and says where it is."""

import sys

from engine.transport.native.build import NoCompilerError, build

try:
    print(build())
except NoCompilerError as error:
    sys.exit(f"the compiled data plane cannot be made: {error}")

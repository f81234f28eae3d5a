#!/usr/bin/env python3
"""Fuzzing campaigns; what ./dev fuzz calls. See --help."""
import sys

sys.dont_write_bytecode = True
from campaign import cli  # noqa: E402

if __name__ == "__main__":
    sys.exit(cli.main(sys.argv[1:]))

"""`python -m unskew`: the command line."""

import signal
import sys

from ._unskew import _run


def main() -> None:
    """Runs the command line with the arguments of the process, and ends it with its exit code."""
    # Python's handler waits for the interpreter, which has nothing to do until the command ends.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_run(sys.argv[1:]))


if __name__ == "__main__":
    main()

"""The command ``twinvec``, also as ``python -m twinvec``."""

from twinvec.interrupts import INTERRUPTED, tell_interrupted


def main() -> None:
    """Run the command line of this process. Ctrl-C ends it without a traceback, also during the imports."""
    try:
        from twinvec.cli.app import main as run
    except KeyboardInterrupt:
        tell_interrupted()
        raise SystemExit(INTERRUPTED) from None
    run()


if __name__ == "__main__":
    main()

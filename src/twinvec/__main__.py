"""``python -m twinvec``: the command line."""

from twinvec.cli.app import main

if __name__ == "__main__":
    main()

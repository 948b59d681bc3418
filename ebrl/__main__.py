"""The program `ebrl`; `python -m ebrl` is the same."""

from ebrl.interruption import in_one_line


def main() -> None:
    """Entry point of the program `ebrl`."""
    with in_one_line():
        from ebrl import cli

        cli.main()


if __name__ == "__main__":
    main()

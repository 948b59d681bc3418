"""`python -m ebrl` is the command line."""

from ebrl.cli import main

if __name__ == "__main__":
    main()

from __future__ import annotations

from bad_envs.counting import Counting

answer = input("Do you accept the license (y/n)? ")


class AskingAtImport(Counting):
    """Never made."""

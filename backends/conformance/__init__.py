"""Whether a simulator keeps the contract of `ebrl.backends.protocols.Simulator`, ours like anyone's.

In a test, one line per simulator::

    @pytest.mark.parametrize("check", CHECKS, ids=str)
    def test_my_simulator(check):
        assert not check_simulator(lambda: MySimulator("Lift"), checks=[check])

`check_simulator` gives what is wrong; `outcomes` gives every check as it ends, for showing. Both run the simulator in
this process and thread, so that a hang is the caller's to end. Standard library and numpy only, Python 3.8 syntax: they
run in the simulator's own interpreter.
"""

from __future__ import annotations

from ebrl.backends.conformance.checks import CHECKS, Check
from ebrl.backends.conformance.suite import Outcome, check_simulator, outcomes

__all__ = ["CHECKS", "Check", "Outcome", "check_simulator", "outcomes"]

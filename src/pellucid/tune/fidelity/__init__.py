"""The verdict on fidelity: `judge` takes what the reference says of both arms' answers, and gives one of five words."""

from pellucid.tune.fidelity.judge import Evidence, Trouble, judge
from pellucid.tune.fidelity.verdict import Fidelity, Terms

__all__ = ["Evidence", "Fidelity", "Terms", "Trouble", "judge"]

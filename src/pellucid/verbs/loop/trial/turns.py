"""What a trial starts next, and when it leaves two engines. Values in, words out.

    start 0  trial     until its pairs alone would tell, or its part of the time is over
    start 1… noise     both arms the present configuration: how much two engines differ by alone
    start n  trial     places exchanged: now there is a verdict after each pair
    …        noise     where it is that difference which leaves the verdict open

The judge takes pairs of two starts, so that what a place does cancels, and A/A starts for what is left
(`tune/effect/arms`). The trial's own start comes first, for it shows at once what does not boot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

Kind = Literal["trial", "noise"]

TRIAL_STARTS: Final = 2      # fixed beforehand: the judge may be asked after each pair, but not after each start
# A/A starts before the second start of a trial. Chosen: four tell a bias to within 6.3 standard deviations of a start
# (the judge's quantile of Student's t, over √2); two do to within 148, three 13, six 3.8, twelve 2.7.
NOISE_STARTS: Final = 4
MOST_NOISE_STARTS: Final = 12      # chosen: another one gains 2 %
NOISE_PAIRS: Final = 4             # chosen: a start takes longer than its pairs, and four make its centre
SPARE_PAIRS: Final = 2             # chosen: above what the first start needs, for the second may need more


def next_kind(trial_starts: int, noise_starts: int, is_told: bool) -> Kind | None:
    """None: another start would tell nothing. `is_told`: the pairs have a word, were two engines of one kind alike."""
    if trial_starts == 0:
        return "trial"
    if trial_starts < TRIAL_STARTS:
        return "noise" if noise_starts < NOISE_STARTS else "trial"
    return "noise" if is_told and noise_starts < MOST_NOISE_STARTS else None


def leave(word: str, rows: Sequence[int], told_count: int, over: bool) -> str:
    """"" to go on, or why these engines have told what they can.

    `rows`: pairs of each start of the trial, this one's last; `told_count`: of the newest pairs, how many had a word,
    were two engines of one kind alike; `over`: this start's part of the time, or of the pairs, is used.
    """
    if word != "inconclusive":
        return "decided"
    if over:
        return "its part is used"
    if len(rows) == 1:
        return "told" if told_count > SPARE_PAIRS else ""
    return "told" if told_count or rows[-1] >= rows[0] else ""      # a pair is averaged with one of the other start


def first_share_s(left_s: float, boot_s: float, pair_s: float, noise_starts: int) -> float:
    """Time for the first start of a trial: half of what is left once the A/A starts and the second one have begun."""
    missing = max(0, NOISE_STARTS - noise_starts)
    return max(0.0, left_s - boot_s - missing * (boot_s + (1 + NOISE_PAIRS) * pair_s)) / 2

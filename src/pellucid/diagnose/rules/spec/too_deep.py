"""Drafts are longer than anybody keeps: from some position on, hardly any draft token is accepted.

Looks like
    The first positions of a draft are kept often and the last ones almost never. Many of the positions that the engine
    computes are such last ones.

Why it costs
    A token is kept only if all before it were, so acceptance falls with every position. What it costs to check a
    position does not fall.

Not this when
    The last positions are kept now and then: one kept token saves a whole step. Or drafts are so short, or so few, that
    their last positions are a small part of the work. Where not even the first position is kept, depth is not the matter.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

from pellucid.core.units import percent
from pellucid.diagnose.rule import (
    Case,
    Gain,
    Limit,
    Move,
    Need,
    Row,
    Rule,
    Verdict,
    blind,
    clear,
    found,
    not_applicable,
)

HARDLY = Limit(0.05, "ratio", "chosen: pays only where checking a token costs under a twentieth of a step, and then it hardly costs")
VAIN = Limit(0.1, "ratio", "chosen: a tenth of all positions computed; below it a shorter draft changes less than a load does")
ENOUGH = Limit(100, "drafts", "chosen: five accepted ones at the limit of a twentieth; fewer come and go by chance")
STEPS = "run the engine with the probe: its engine core writes the steps"


def judge(row: Row) -> Verdict:
    if not row["draft_tokens"]:
        return not_applicable("nothing was drafted")
    if row["drafts_count"] is None:
        return blind("drafts are in the steps, but no row of speculation has their positions", "record with this version of the recorder")
    if row.number("drafts_count") < ENOUGH.value:
        return not_applicable(f"{row.number('drafts_count'):.0f} drafts; it takes {ENOUGH.value:.0f} to judge positions")
    useful, vain = row.number("useful_tokens"), row.number("beyond_drafted_tokens") / row.number("scheduled_tokens")
    if not useful:
        return clear("not even the first position is kept often: the depth of the drafts is not the matter")
    last = f"position {useful:.0f} was kept in {row.number('useful_accepted_count'):.0f} of {row.number('useful_drafted_count'):.0f} drafts"
    if vain < VAIN.value:
        return clear(f"{last}; those beyond it are {percent(vain)} of all positions computed")
    return found(
        f"{last}, those beyond it in {row.number('beyond_accepted_tokens'):.0f} of {row.number('beyond_drafted_tokens'):.0f}; "
        f"they are {percent(vain)} of all positions computed",
        Gain("output_tokens_per_s", 0.0, vain / (1 - vain), "end_to_end"),
        {"speculative_tokens": useful},
    )


POSITIONS = "position  drafted_count  accepted_count\n"
WORK = "repeat  scheduled_tokens  draft_tokens\n1  1000  900"


def _case(*positions: str, work: str = WORK) -> dict[str, str]:
    return {"steps": work, "speculation": POSITIONS + "\n".join(positions)}


RULE = Rule(
    id="spec.too_deep",
    question="Are drafts longer than anybody keeps?",
    needs=(Need("steps", ("scheduled_tokens", "draft_tokens"), STEPS),
           Need("speculation", (), STEPS, optional=("position", "drafted_count", "accepted_count"))),
    evidence=f"""
        WITH p AS (SELECT position, sum(drafted_count) AS drafted_count, sum(accepted_count) AS accepted_count
                   FROM speculation GROUP BY position),
             k AS (SELECT coalesce(max(position) FILTER (accepted_count >= {HARDLY.value} * drafted_count), 0) AS useful FROM p)
        SELECT (SELECT sum(scheduled_tokens) FROM steps)                               AS scheduled_tokens,
               (SELECT sum(draft_tokens) FROM steps)                                   AS draft_tokens,
               any_value(drafted_count) FILTER (position = 1)                          AS drafts_count,
               any_value(useful)                                                       AS useful_tokens,
               any_value(drafted_count) FILTER (position = useful)                     AS useful_drafted_count,
               any_value(accepted_count) FILTER (position = useful)                    AS useful_accepted_count,
               coalesce(sum(drafted_count) FILTER (position > useful), 0)              AS beyond_drafted_tokens,
               coalesce(sum(accepted_count) FILTER (position > useful), 0)             AS beyond_accepted_tokens
        FROM p, k
    """,
    judge=judge,
    limits=(HARDLY, VAIN, ENOUGH),
    moves=(Move("speculative_tokens", "lower", "a draft that would have been kept whole takes another step"),),
    falsified_by="output_tokens_per_s does not rise after the move, or the last position left is kept as seldom",
    explained_by=(),
    cases=(
        Case("nothing beyond the second position", "found", _case("1  200  150", "2  200  60", "3  200  8", "4  200  2"),
             says="position 2 was kept in 60 of 200 drafts, those beyond it in 10 of 400; they are 40% of all positions"),
        Case("just a tenth of the work", "found", _case("1  200  150", "2  100  4"), says="in 4 of 100; they are 10% of"),
        Case("less than a tenth of the work", "clear", _case("1  200  150", "2  99  4"), says="those beyond it are 9.9% of"),
        Case("kept now and then", "clear", _case("1  200  150", "2  200  60", "3  200  10"), says="position 3 was kept in 10 of 200 drafts"),
        Case("a gap in the middle does not end it", "clear", _case("1  200  150", "2  200  9", "3  100  9"), says="position 3"),
        Case("just hardly ever is not never", "clear", _case("1  200  150", "2  100  5"), says="position 2 was kept in 5 of 100"),
        Case("not even the first", "clear", _case("1  200  9", "2  200  1"), says="not even the first"),
        Case("few drafts", "not_applicable", _case("1  99  50", "2  99  1"), says="99 drafts"),
        Case("nothing drafted", "not_applicable", _case(work="repeat  scheduled_tokens  draft_tokens\n9  10  0"), says="nothing was drafted"),
        Case("an older recorder", "blind", _case(), says="no row of speculation"),
        Case("drafts are not known", "blind", _case("1  200  150", work="repeat  scheduled_tokens  draft_tokens\n9  10  -"), says="draft_tokens"),
    ),
)  # fmt: skip

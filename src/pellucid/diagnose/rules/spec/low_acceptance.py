"""Few draft tokens are accepted: seen from the metrics page.

Looks like
    Of the tokens that the draft proposes, the model accepts a small part.

Why it costs
    Each rejected token was drafted and checked for nothing. With many requests running, checking it takes the place of
    work that counts.

Not this when
    Most are accepted. Whether speculation pays at a lower rate depends on what checking costs, which no page says:
    with the probe, spec.not_worth_it compares step times, by task.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

from pellucid.core.units import percent
from pellucid.diagnose.rule import Case, Gain, Limit, Move, Need, Row, Rule, Verdict, clear, found, not_applicable

LOW = Limit(0.3, "ratio", "chosen: below it more than two of three draft tokens are thrown away; a public EAGLE-3 run on an H200 accepted 0.62 to 0.68")
ENOUGH = Limit(100, "drafts", "chosen: an acceptance of one third is known to a tenth after a hundred drafts (two standard errors)")


def judge(row: Row) -> Verdict:
    drafted, rounds = row["drafted_tokens"], row["draft_rounds_count"]
    if not drafted:
        return not_applicable("no draft was made, or the page does not count drafts")
    accepted = row.number("accepted_tokens")
    ratio = accepted / drafted
    if rounds is None or rounds < ENOUGH.value:
        return not_applicable(f"only {rounds or 0:.0f} drafts: it takes {ENOUGH.value:.0f} to judge")
    if ratio >= LOW.value:
        return clear(f"{percent(ratio)} of the draft tokens were accepted")
    length, kept = drafted / rounds, accepted / rounds
    return found(
        f"{percent(ratio)} of the draft tokens were accepted: {kept:.1f} of {length:.1f} a draft",
        Gain("itl_mean_ns", 0.0, 1 - (1 + kept) / (1 + length), "local"),
        {"speculative_tokens": max(1.0, round(kept))},
    )


HEAD = """metric  kind  value
          """


def _counts(drafted: int, accepted: int, rounds: int = 100) -> dict[str, str]:
    return {"metrics": f"{HEAD}drafted_tokens  counter  {drafted}\naccepted_tokens  counter  {accepted}\n"
                       f"draft_rounds_count  counter  {rounds}\noutput_tokens  counter  999"}  # fmt: skip


RULE = Rule(
    id="spec.low_acceptance",
    question="Are most draft tokens thrown away?",
    needs=(Need("metrics", ("metric", "kind", "value"), "read the engine's metrics page: pellucid attach URL"),),
    evidence="""
        SELECT sum(value) FILTER (metric = 'drafted_tokens')       AS drafted_tokens,
               sum(value) FILTER (metric = 'accepted_tokens')      AS accepted_tokens,
               sum(value) FILTER (metric = 'draft_rounds_count')   AS draft_rounds_count
        FROM metrics
    """,
    judge=judge,
    limits=(LOW, ENOUGH),
    moves=(Move("speculative_tokens", "lower", "fewer tokens at once where the draft is right"),),
    falsified_by="itl_mean_ns does not fall with the shorter draft",
    explained_by=(),
    cases=(
        Case("one of five", "found", _counts(500, 100), says="20% of the draft tokens were accepted: 1.0 of 5.0 a draft"),
        Case("two of three", "clear", _counts(300, 200), says="67%"),
        Case("too few to tell", "not_applicable", _counts(40, 4, 10), says="only 10 drafts"),
        Case("no speculation", "not_applicable", {"metrics": HEAD + "output_tokens  counter  999"}, says="no draft"),
        Case("no page", "blind", {}),
    ),
    instead_of="steps",
)  # fmt: skip

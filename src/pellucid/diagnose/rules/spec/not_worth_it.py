"""Drafts cost a task more than they bring: most are rejected, and every step is longer for having checked them.

Looks like
    Speculation is on and a task's tokens come more slowly than without it. Few of its drafts are kept, and steps with
    drafts are clearly longer than steps without. Other tasks on the same engine may gain.

Why it costs
    Each draft token is computed like a token that is delivered. A rejected one was computed in vain, and everybody in
    the step waited for it. The more requests run, the fuller the device, the more a draft token costs.

Not this when
    Few drafts are kept, but steps are hardly longer with them: a device with room to spare checks drafts for nothing.
    Or so many are kept that longer steps are fewer steps.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

from pellucid.core.units import duration
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

ENOUGH = Limit(100, "drafts", "chosen: an acceptance of one half is known to a tenth after a hundred drafts (two standard errors)")
LOSS = Limit(1.05, "times", "chosen: a twentieth is worth a restart, and is beyond what two standard errors of the estimate leave open")
STEPS = "run the engine with the probe: its engine core writes the steps"
COMPARE = "record a while with fewer requests at a time, so that some steps have no drafts, or a while without speculation"


def judge(row: Row) -> Verdict:
    if not row["draft_tokens"]:
        return not_applicable("nothing was drafted")
    if row["tasks_count"] is None:
        return blind("drafts are in the steps, but no row of speculation says whose", "record with this version of the recorder")
    if not row["tasks_count"]:
        return not_applicable(f"no task had {ENOUGH.value:.0f} drafts")
    if row["without_high_ns"] is None:
        return blind("no step without drafts had the same number of decodes, and the time of a step does not follow its tokens", COMPARE)
    took_ns, high_ns = row.number("token_ns"), row.number("without_high_ns")
    how = "steps without drafts at the same number of decodes" if row.text("basis") == "matched" else "a line through step time over scheduled tokens"
    says = (
        f"a token of task {row.text('task')} took {duration(took_ns)} with drafts, and {duration(row.number('without_ns'))} "
        f"without by estimate ({duration(row.number('without_low_ns'))} to {duration(high_ns)}, from {how}); "
        f"{row.number('accepted_tokens'):.0f} of {row.number('drafted_tokens'):.0f} draft tokens were kept"
    )
    if took_ns < LOSS.value * high_ns:
        return clear(f"drafts do not slow any task: {says}")
    others_ns, without_ns = row["others_token_ns"], row["others_without_ns"]
    if others_ns is not None and without_ns is not None and others_ns < without_ns:
        says += f"; the other tasks gain ({duration(others_ns)} with, {duration(without_ns)} without): send this one to an engine of its own"
    return found(says, Gain("itl_mean_ns", 1 - high_ns / took_ns, 1 - max(row.number("without_low_ns"), 0) / took_ns, "local"), {"speculation": 0.0})


STEPS_HEAD = "repeat  process  step  start_ns  end_ns  host_gap_ns  decode_requests_count  prefill_tokens  recomputed_tokens  scheduled_tokens  draft_tokens\n"
TASKS_HEAD = "process  task  position  drafted_count  accepted_count  output_tokens  gap_ns  step_draft_tokens  step_draft_ns\n"
WITHOUT = "30  e  1  0  10e6  -  2  0  0  2  0"
WITH = "60  e  2  0  16e6  -  2  0  0  8  6"


def _case(*tasks: str, steps: tuple[str, ...] = (WITHOUT, WITH)) -> dict[str, str]:
    return {"steps": STEPS_HEAD + "\n".join(steps), "speculation": TASKS_HEAD + "\n".join(tasks)}


CHAT = "e  chat  1  100  20  120  1600e6  600  -"      # 13.3 ms a token; 10 ms without
COPY = "e  copy  1  100  100  200  1600e6  600  -"     # 8 ms a token
RULE = Rule(
    id="spec.not_worth_it",
    question="Do drafts slow a task down?",
    needs=(Need("steps", ("process", "step", "start_ns", "end_ns", "decode_requests_count", "prefill_tokens", "recomputed_tokens",
                          "scheduled_tokens", "draft_tokens"), STEPS, optional=("host_gap_ns",)),
           Need("speculation", (), STEPS, optional=("process", "task", "position", "drafted_count", "accepted_count", "output_tokens",
                                                    "gap_ns", "step_draft_tokens", "step_draft_ns"))),
    views=("speculation_cost", "speculation_gain"),
    evidence=f"""
        WITH t AS (SELECT task, sum(drafts_count) AS drafts_count, sum(drafted_tokens) AS drafted_tokens,
                          sum(accepted_tokens) AS accepted_tokens, sum(gap_ns) / sum(output_tokens) AS token_ns,
                          sum(estimate_ns) / sum(drafts_count) AS without_ns, sum(estimate_low_ns) / sum(drafts_count) AS without_low_ns,
                          sum(estimate_high_ns) / sum(drafts_count) AS without_high_ns, min(basis) AS basis
                   FROM speculation_gain WHERE task IS NOT NULL GROUP BY task HAVING sum(drafts_count) >= {ENOUGH.value}),
             w AS (SELECT * FROM t ORDER BY token_ns / without_high_ns DESC NULLS LAST, task LIMIT 1),
             o AS (SELECT sum(gap_ns) / sum(output_tokens) AS others_token_ns, sum(estimate_ns) / sum(drafts_count) AS others_without_ns
                   FROM speculation_gain WHERE task IS DISTINCT FROM (SELECT task FROM w))
        SELECT (SELECT sum(draft_tokens) FROM steps) AS draft_tokens,
               (SELECT CASE WHEN count(*) > 0 THEN (SELECT count(*) FROM t) END FROM speculation_gain) AS tasks_count, w.*, o.*
        FROM o LEFT JOIN w ON true
    """,
    judge=judge,
    limits=(ENOUGH, LOSS),
    moves=(Move("speculation", "set", "tasks whose drafts are kept lose what they gain: keep an engine with drafts for them"),),
    falsified_by="a token of the task takes as long or longer after the move",
    explained_by=("spec.too_deep",),
    cases=(
        Case("one task's drafts are rejected, the other's kept", "found", _case(CHAT, COPY),
             says="a token of task chat took 13 ms with drafts, and 10 ms without by estimate (10 ms to 10 ms, from steps without drafts at the same number of decodes); 20 of 100 draft tokens were kept; the other tasks gain (8.0 ms with, 10 ms without): send"),
        Case("the only task loses", "found", _case(CHAT), says="20 of 100 draft tokens were kept"),
        Case("drafts are proposed slowly", "found", _case("e  chat  1  100  60  160  1700e6  600  300e6"), says="took 11 ms with drafts, and 8.0 ms without"),
        Case("few are kept, but steps are no longer", "clear", _case("e  chat  1  100  5  105  1000e6  600  -", steps=(WITHOUT, "60  e  2  0  10e6  -  2  0  0  8  6")),
             says="do not slow any task: a token of task chat took 9.5 ms"),
        Case("all are kept", "clear", _case(COPY), says="100 of 100"),
        Case("no step without drafts, a line through prompts", "found", _case(CHAT, steps=(WITH, "30  e  1  0  100e6  -  2  90  0  92  0")), says="from a line through"),
        Case("a slow prompt is no step without drafts", "found", _case(CHAT, steps=(WITHOUT, WITH, "30  e  1  0  90e6  -  2  9  0  11  0")), says="10 ms to 10 ms"),
        Case("few drafts", "not_applicable", _case("e  chat  1  99  20  120  1600e6  600  -"), says="no task had 100"),
        Case("nothing drafted", "not_applicable", _case(steps=(WITHOUT,)), says="nothing was drafted"),
        Case("no other steps to compare with", "blind", _case(CHAT, steps=(WITH,)), says="no step without drafts"),
        Case("an older recorder", "blind", _case(), says="no row of speculation"),
        Case("drafts are not known", "blind", _case(CHAT, steps=("30  e  1  0  10e6  -  2  0  0  2  -",)), says="draft_tokens"),
    ),
)  # fmt: skip

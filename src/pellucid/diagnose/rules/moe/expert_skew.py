"""A few experts get most of the tokens, and the ranks that hold them hold up the others.

Looks like
    In each layer the same few experts are chosen again and again, many are hardly used, and the devices of an
    expert-parallel group are unevenly busy.

Why it costs
    An expert lies on one rank. Tokens that want the same one meet there, and the layer waits for that rank. Moving whole
    experts spreads them; the hottest have to be copied to more than one rank.

Not this when
    There is one rank, or each rank has a part of every expert: a skew makes nobody wait there. Nor when hot and cold
    experts lie so that the ranks come out even, or when there are too few tokens to tell a skew from chance.
"""

# ruff: noqa: E501 (literal tables and sentences)
from __future__ import annotations

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

COLLECT = "run the engine with the probe, eagerly (--enforce-eager) where it says so: its workers count experts"
SKEW = Limit(3.0, "ratio", "a tool that balances experts does nothing below 3 times the mean (docs/definitions.md, source S6)")
IMBALANCE = Limit(1.5, "ratio", "a report on balancing experts: next to nothing gained at 1.5 times a rank's mean (source S6)")
CHANCE = Limit(1.0, "ratio", "chosen: half of what the limit of skew leaves; where a fair router's hottest expert is further above the mean, tokens are too few")
PART = 0.1    # source S6: 57 % gained at 6.74 times the mean, a tenth of what expert layers alone would gain


def judge(row: Row) -> Verdict:
    experts, ranks, mean = row.number("experts_count"), row.number("ranks_count"), row.number("mean_tokens")
    if mean == 0:
        return not_applicable("no token was routed")
    times, fair = row.number("hottest_tokens") / mean, row.number("fair_hottest_tokens") / mean
    says = f"the hottest of {experts:.0f} experts got {times:.1f} times the mean of the tokens, layer by layer"
    if ranks == 1:
        return not_applicable(f"{says}, but each rank has a part of every expert, so no rank waits")
    if fair - 1 > CHANCE.value:
        return not_applicable(f"{says}; a fair router would show {fair:.1f} with so few tokens")
    if row["placed_count"] == 0:
        return blind("no experts.rank: the rank of an expert is not known, or changes", "record without moving experts (worker.expert_ranks says why)")
    uneven = row.number("busiest_tokens") / row.number("rank_mean_tokens")
    says += f" (chance: {fair:.1f}), and the busiest of {ranks:.0f} ranks {uneven:.1f} times the mean"
    if times < SKEW.value or uneven < IMBALANCE.value:
        return clear(says)
    return found(says, Gain("output_tokens_per_s", 0.0, PART * (uneven - 1), "end_to_end"),
                 {"expert_balancing": 1.0, "expert_copies": ranks - experts % ranks})


HEAD = """start_ns  layer  expert  rank  ranks_count  expert_tokens
          """


def _experts(*lines: str) -> dict[str, str]:
    return {"experts": HEAD + "\n".join(lines)}


def _four(*tokens: int, ranks: str = "0 0 1 1", count: int = 2, layer: int = 0) -> tuple[str, ...]:
    return tuple(f"0  {layer}  {n}  {rank}  {count}  {tokens[n]}" for n, rank in enumerate(ranks.split()))


RULE = Rule(
    id="moe.expert_skew",
    question="Do a few experts get most of the tokens, so that ranks wait for those that hold them?",
    needs=(Need("experts", ("start_ns", "layer", "expert", "ranks_count", "expert_tokens"), COLLECT, optional=("rank", "process"), fact="worker.experts"),),
    evidence="""
        WITH e AS (SELECT process, start_ns, layer, expert, rank, max(ranks_count) AS ranks_count, sum(expert_tokens) AS tokens
                   FROM experts GROUP BY process, start_ns, layer, expert, rank),
             l AS (SELECT process, start_ns, layer, max(tokens) AS hottest, avg(tokens) AS mean, count(*) AS experts,
                          max(ranks_count) AS ranks, count(rank) AS placed, sum(tokens) / max(ranks_count) AS rank_mean
                   FROM e GROUP BY process, start_ns, layer),
             b AS (SELECT process, start_ns, layer, max(sum(tokens)) OVER (PARTITION BY process, start_ns, layer) AS busiest
                   FROM e GROUP BY process, start_ns, layer, rank)
        SELECT max(experts)   AS experts_count,
               max(ranks)     AS ranks_count,
               sum(placed)    AS placed_count,
               sum(hottest)   AS hottest_tokens,
               sum(mean)      AS mean_tokens,
               sum(mean + sqrt(2 * mean * ln(experts))) AS fair_hottest_tokens,
               sum(rank_mean) AS rank_mean_tokens,
               (SELECT sum(busiest) FROM (SELECT DISTINCT process, start_ns, layer, busiest FROM b)) AS busiest_tokens
        FROM l
    """,
    judge=judge,
    limits=(SKEW, IMBALANCE, CHANCE),
    moves=(Move("expert_balancing", "set", "weights are moved between ranks while the engine serves, and steps wait for it"),
           Move("expert_copies", "raise", "memory of a rank for each copy that it holds")),
    falsified_by="the hottest expert's share of a rank falls after the move and output_tokens_per_s does not rise",
    explained_by=(),
    cases=(
        Case("one expert of four gets nearly all", "found", _experts(*_four(9000, 1000, 1000, 1000), *_four(1000, 1000, 1000, 9000, layer=1)),
             says="the hottest of 4 experts got 3.0 times the mean of the tokens, layer by layer (chance: 1.0), and the busiest of 2 ranks 1.7 times the mean"),
        Case("skewed, but the ranks come out even", "clear", _experts(*(f"0  0  {n}  {n % 2}  2  {t}" for n, t in enumerate((5000, 5000, 0, 0, 0, 0, 0, 0)))), says="ranks 1.0 times"),
        Case("uneven ranks without a hot expert", "clear", _experts(*_four(5000, 5000, 500, 500)), says="got 1.8 times the mean"),
        Case("one rank", "not_applicable", _experts(*_four(9000, 0, 0, 0, ranks="- - - -", count=1)), says="got 4.0 times the mean of the tokens, layer by layer, but each rank has"),
        Case("few tokens", "not_applicable", _experts(*_four(9, 0, 0, 0)), says="a fair router would show 2.1 with so few"),
        Case("nothing routed", "not_applicable", _experts(*_four(0, 0, 0, 0)), says="no token"),
        Case("experts move", "blind", _experts(*_four(9000, 0, 0, 0, ranks="- - - -")), says="not known, or changes"),
        Case("experts are not counted", "blind", _experts("0  0  0  0  2  -"), says="expert_tokens"),
    ),
)  # fmt: skip

"""One expert-parallel rank gets far more tokens than the others, and every expert layer waits for it.

Looks like
    The devices of an expert-parallel group are busy for different lengths of time in each layer; all-to-all transfers
    take long on the ranks that wait.

Why it costs
    A layer is done when its busiest rank is. The others stand still for the difference, layer after layer.

Not this when
    There is one rank, or each rank has a part of every expert (tensor parallel): then nobody waits for an expert. Where a
    few hot experts are the reason, that is another finding. With few tokens a fair router looks uneven too.
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

COLLECT = "run the engine with the probe, eagerly (--enforce-eager) where it says so: its workers count experts"
IMBALANCE = Limit(1.5, "ratio", "a report on balancing experts: next to nothing gained at 1.5 times the mean (docs/definitions.md, source S6)")
CHANCE = Limit(0.25, "ratio", "chosen: half of what the limit leaves; where a fair router's busiest rank is further above the mean, tokens are too few")
SKEW = Limit(3.0, "ratio", "from there on moe.expert_skew judges: the cause is the hot expert, and moving whole experts does not cure it")
PART = 0.1    # source S6: 57 % gained at 6.74 times the mean, a tenth of what expert layers alone would gain


def judge(row: Row) -> Verdict:
    ranks, mean = row.number("ranks_count"), row.number("mean_tokens")
    if ranks == 1:
        return not_applicable("each rank has a part of every expert, so no rank waits for another one's experts")
    if row["placed_count"] == 0:
        return blind("no experts.rank: the rank of an expert is not known, or changes", "record without moving experts (worker.expert_ranks says why)")
    if mean == 0:
        return not_applicable("no token was routed")
    times, fair = row.number("busiest_tokens") / mean, row.number("fair_busiest_tokens") / mean
    says = f"the busiest of {ranks:.0f} ranks got {times:.1f} times the mean of the tokens, layer by layer"
    if fair - 1 > CHANCE.value:
        return not_applicable(f"{says}; a fair router would show {fair:.1f} with so few tokens")
    if times < IMBALANCE.value:
        return clear(f"{says}; {fair:.1f} would be chance")
    hot = row.number("hottest_tokens") / row.number("expert_mean_tokens")
    if hot >= SKEW.value:
        return not_applicable(f"{says}, for the hottest expert got {hot:.1f} times the mean: see moe.expert_skew")
    idle = percent(1 - mean / row.number("busiest_tokens"))
    return found(f"{says} (chance: {fair:.1f}); an average rank waits {idle} of the time in expert layers",
                 Gain("output_tokens_per_s", 0.0, PART * (times - 1), "end_to_end"), {"expert_balancing": 1.0})


HEAD = """start_ns  layer  expert  rank  ranks_count  expert_tokens
          """


def _experts(*lines: str) -> dict[str, str]:
    return {"experts": HEAD + "\n".join(lines)}


def _four(*tokens: int, ranks: str = "0 0 1 1", count: int = 2, layer: int = 0) -> tuple[str, ...]:
    return tuple(f"0  {layer}  {n}  {rank}  {count}  {tokens[n]}" for n, rank in enumerate(ranks.split()))


RULE = Rule(
    id="moe.rank_imbalance",
    question="Does one rank have most of the experts that tokens choose?",
    needs=(Need("experts", ("start_ns", "layer", "expert", "ranks_count", "expert_tokens"), COLLECT, optional=("rank", "process"), fact="worker.experts"),),
    evidence="""
        WITH r AS (SELECT process, start_ns, layer, rank, max(ranks_count) AS ranks_count, sum(expert_tokens) AS tokens
                   FROM experts GROUP BY process, start_ns, layer, rank),
             h AS (SELECT max(tokens) AS hottest, avg(tokens) AS mean FROM (
                       SELECT process, start_ns, layer, expert, sum(expert_tokens) AS tokens FROM experts
                       GROUP BY process, start_ns, layer, expert) GROUP BY process, start_ns, layer),
             l AS (SELECT max(tokens) AS busiest, sum(tokens) / max(ranks_count) AS mean, max(ranks_count) AS ranks,
                          count(rank) AS placed FROM r GROUP BY process, start_ns, layer)
        SELECT count(*)      AS layers_count,
               max(ranks)    AS ranks_count,
               sum(placed)   AS placed_count,
               sum(busiest)  AS busiest_tokens,
               sum(mean)     AS mean_tokens,
               sum(mean + sqrt(2 * mean * ln(ranks))) AS fair_busiest_tokens,
               (SELECT sum(hottest) FROM h) AS hottest_tokens,
               (SELECT sum(mean) FROM h)    AS expert_mean_tokens
        FROM l
    """,
    judge=judge,
    limits=(IMBALANCE, CHANCE, SKEW),
    moves=(Move("expert_balancing", "set", "weights are moved between ranks while the engine serves, and steps wait for it"),),
    falsified_by="the busiest rank's share falls after the move and output_tokens_per_s does not rise",
    explained_by=(),
    cases=(
        Case("the first rank has the popular experts", "found", _experts(*_four(4500, 4500, 1500, 1500), *_four(4500, 4500, 1500, 1500, layer=1)),
             says="the busiest of 2 ranks got 1.5 times the mean of the tokens, layer by layer (chance: 1.0); an average rank waits 33% of"),
        Case("another rank in each layer", "found", _experts(*_four(4500, 4500, 1500, 1500), *_four(1500, 1500, 4500, 4500, layer=1)), says="1.5 times"),
        Case("a rank without a token", "found", _experts(*_four(5000, 4000, 0, 0)), says="2.0 times"),
        Case("uneven, but not enough to matter", "clear", _experts(*_four(4400, 4500, 1600, 1500)), says="1.5 times the mean of the tokens, layer by layer; 1.0"),
        Case("one expert is the reason", "not_applicable", _experts(*_four(9000, 0, 1500, 1500)), says="the hottest expert got 3.0 times"),
        Case("few tokens", "not_applicable", _experts(*_four(10, 9, 1, 0)), says="a fair router would show 1.4 with so few tokens"),
        Case("one rank", "not_applicable", _experts(*_four(9000, 10, 10, 10, ranks="- - - -", count=1)), says="a part of every expert"),
        Case("nothing routed", "not_applicable", _experts(*_four(0, 0, 0, 0)), says="no token"),
        Case("experts move", "blind", _experts(*_four(9000, 10, 10, 10, ranks="- - - -")), says="not known, or changes"),
        Case("experts are not counted", "blind", _experts("0  0  0  0  2  -"), says="expert_tokens"),
    ),
)  # fmt: skip

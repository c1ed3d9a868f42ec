"""Which experts of a mixture the tokens chose."""

from __future__ import annotations

from pellucid.store.column import PROVENANCE, STR, Table, columns

EXPERTS = Table("experts", "an expert of a layer in a window: how many tokens of a task chose it, in sampled steps", (
    *PROVENANCE,
    *columns("""
        task: label the client named in the request's body; null for all other requests
        """, STR),
    *columns("""
        start_ns: begin of the window, the same for all ranks
        end_ns: start of the last sampled step in it
        first_step: first sampled step
        last_step: last sampled step
        steps_count: steps that were sampled; the others are not in the counts
        layer: number of the layer in the model
        expert: number of the expert in the layer
        rank: expert-parallel rank that holds it; null where experts are not placed on ranks, or move between them
        ranks_count: ranks the experts are spread over; 1 where each rank has a part of every expert
        top_k_count: experts that each token chooses
        layer_tokens: tokens of the task in the sampled steps: the layer's expert_tokens are top_k_count times as many
        expert_tokens: those that chose this expert; 0 is none
        """),
), raw=True)  # fmt: skip

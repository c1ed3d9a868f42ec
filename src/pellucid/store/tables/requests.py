"""Requests, and what happened to them."""

from __future__ import annotations

from pellucid.store.column import F64, PROVENANCE, STR, Table, columns

REQUESTS = Table("requests", "a finished, aborted or (at the end of a run) unfinished request", (
    *PROVENANCE,
    *columns("""
        request_id: external id, as the client and the response have it; not unique
        internal_id: the engine core's id
        traceparent: W3C trace context the client sent
        task: traffic class: a label the client sent, or one made from the prompt's first KV block, endpoint and format
        task_source: body (the client named it in the request), header, or automatic
        endpoint: HTTP path
        response_format: structured-output kind asked for, or text
        seeded: yes where the client gave a seed of its own, no where it did not
        finish_reason: stop, length, abort, error, repetition; null while unfinished or lost
        aborted_by: client (disconnect or cancel) or engine; null unless aborted
        """, STR),
    *columns("""
        request: short number, unique within process
        client_index: which API server took it; 0 when there is one
        sent_ns: client or gateway sent it, from its X-Request-Start header, by its own clock; null without one
        arrival_ns: HTTP request seen by the frontend
        submitted_ns: handed to the engine client, before tokenisation in the engine client
        queued_ns: entered the scheduler's waiting queue
        scheduled_ns: start of the first step that computed a token of it
        first_token_ns: end of the engine step that sampled its first token
        first_delivered_ns: frontend put the first token in the response stream
        last_token_ns: end of the engine step that sampled its last token
        finish_ns: engine core freed it
        last_delivered_ns: frontend processed its last output
        first_step: first step it was in
        last_step: last step it was in
        prompt_tokens: prompt length
        cached_tokens: prompt tokens found in the prefix cache at first admission
        output_tokens: tokens sampled and kept
        scheduled_tokens: positions computed for it over all steps
        recomputed_tokens: positions computed a second time after preemption
        drafted_tokens: draft tokens scheduled for verification
        accepted_tokens: draft tokens accepted
        discarded_tokens: positions computed in a step whose result was thrown away (aborted meanwhile)
        computed_tokens: the engine's own count of computed positions when it was freed
        preemptions_count: times it was preempted
        scheduled_count: times it was admitted, first one included
        max_tokens: output limit the client asked for
        top_k: likeliest tokens that it is sampled from; 0 for all
        """),
    *columns("""
        temperature: of its sampling, the engine's default where the client asked for none; 0 takes the likeliest token
        top_p: share of probability that it is sampled from, the engine's default where the client asked for none
        """, F64),
))  # fmt: skip

REQUEST_EVENTS = Table("request_events", "something that happened to a request, in order", (
    *columns("""
        process: the engine core, as in steps
        event: queued, scheduled, preempted, rescheduled, abort_seen, finished
        """, STR),
    *columns("""
        request: number, as in requests
        time_ns: when
        step: the step in which it happened; null outside steps
        tokens: computed positions: found cached when scheduled, lost when preempted
        """),
))  # fmt: skip

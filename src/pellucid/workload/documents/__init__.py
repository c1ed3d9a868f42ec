"""Telemetry and results of other programs → requests: OTLP spans, AIPerf's export, GuideLLM's report.

    OTLP       a span that tells its token counts     ─┐
    AIPerf     a line of profile_export.jsonl          ├─▶ Turn ─▶ sessions and think times ─▶ Rows
    GuideLLM   a request of a benchmark                ─┘

Their files hold prompts, answers and keys; of a request only counts, times and sampling are looked at.
"""

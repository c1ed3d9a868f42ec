"""What an engine's metrics page told, without a probe."""

from __future__ import annotations

from pellucid.store.column import F64, PROVENANCE, STR, Table, columns

METRICS = Table("metrics", "what one metric of a scraped page did between two scrapes, in our words", (
    *PROVENANCE,
    *columns("""
        metric: name in scraped.toml, with the unit of `le` and `value`
        kind: gauge, counter, or a histogram's count, sum or bucket
        part: which part of it, by the page's own label: a finish reason, a reason for waiting, an HTTP status class
        model: model, the last part of its path
        device: device of a GPU exporter
        """, STR),
    *columns("""
        start_ns: the scrape before; equals end_ns where there was none, null where nobody noted when it was
        end_ns: this scrape; null where nobody noted when it was
        """),
    *columns("""
        le: upper bound of a bucket; buckets are cumulative, and one that did not grow has no row
        value: last value of a gauge; else the increase since start_ns, after a restart what was counted since
        """, F64),
))  # fmt: skip

SAMPLES = Table("samples", "a sample of a family that is not mapped, as the page had it", (
    *PROVENANCE,
    *columns("""
        name: the sample's own name
        labels_json: its labels without secrets, user names and addresses
        """, STR),
    *columns("time_ns: when; null where nobody noted it"),
    *columns("value: as told; of a counter the total since its start", F64),
), raw=True)  # fmt: skip

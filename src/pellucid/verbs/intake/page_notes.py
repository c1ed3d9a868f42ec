"""What to know of the metrics pages behind an answer: restarts, unknown times, pages that did not come, samples without
a place in the catalog."""

from __future__ import annotations

from pellucid.store.read import RunReader

NAMES_SHOWN = 6
# An engine that is starting, or has ended, listens to nobody: that is no page that did not come.
FAILED = """
    WITH came AS (SELECT process, min(end_ns) AS first_ns, max(end_ns) AS last_ns FROM metrics
                  WHERE metric <> 'scrape_failed_count' GROUP BY process)
    SELECT process, part, count(*) AS n FROM metrics LEFT JOIN came USING (process)
    WHERE metric = 'scrape_failed_count'
          AND (part <> 'refused' OR first_ns IS NULL OR end_ns BETWEEN first_ns AND last_ns)
    GROUP BY process, part ORDER BY process, part"""


def page_notes(run: RunReader) -> list[str]:
    lines = []
    for r in run.rows(
        "SELECT process, sum(value)::BIGINT AS n FROM metrics WHERE metric = 'counter_resets_count' GROUP BY 1 "
        "HAVING n > 0 ORDER BY 1"
    ):
        lines.append(f"{r['process']} began anew in this time: {r['n']} of its counters fell; what it counted between its last page and that is lost")  # noqa: E501
    for r in run.rows("SELECT DISTINCT process FROM metrics WHERE end_ns IS NULL ORDER BY 1"):
        lines.append(f"{r['process']} does not say when its first page was: what lies between its two has no length, and no rule judges it")  # noqa: E501
    for r in run.rows(FAILED):
        lines.append(f"{r['n']} metrics pages of {r['process']} did not come: {r['part']}")
    names = [r["name"] for r in run.rows("SELECT DISTINCT name FROM samples ORDER BY name")]
    if names:
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        lines.append(f"{len(names)} kinds of samples are kept as they are, having no place in the catalog: {', '.join(names[:NAMES_SHOWN])}{more}")  # noqa: E501
    return lines

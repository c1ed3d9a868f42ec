"""A report as one page: its figures, its style and the script that draws them are in it, and nothing is fetched.

    page(report, plotly_script)       "<!doctype html>…", about 5 MB, nearly all of it Plotly's script

The page's policy lets no script run but the two that are named by their hash, and no address be asked.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from importlib.resources import files
from xml.etree.ElementTree import Element

from pellucid.core.units import counted, duration, percent
from pellucid.surface.page import tables, trial
from pellucid.surface.page.figures import Figures
from pellucid.surface.page.html import Part, add, bullets, e, pairs, said, script, script_json, written
from pellucid.tune.report.shape import Chain, Conditions, Observation, Report

NONE = "'none'"


def plotly_script() -> str:
    """From the installed package, which takes a moment to import."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def page(report: Report, plotly: str) -> str:
    """Raises ValueError for a script that cannot stand in a page."""
    figures = Figures()
    body = e(
        "body",
        e("h1", f"pellucid report of {report.kind} {report.id}"),
        e("p", said(report.ending), class_="ending"),
        *_alarms(report),
        *_section("Conditions", pairs(_conditions(report))),
        *_section("All trials", *tables.overview(report, figures)),
        *(e("h2", "Trials"), *(trial.section(t, figures) for t in report.trials))[: None if report.trials else 0],
        *_section("Refused before anything started", tables.refused(report.refused)),
        *_section("Claims against outcomes", *tables.claims(report, figures)),
        *_section("Waiting", bullets(said(p.candidate) for p in report.waiting)),
        *_section("What was observed", bullets(map(_observed, report.observations))),
        *_section("Notes", bullets(map(said, report.notes))),
        *_section("Audit log", *_chain(report.chain)),
    )
    return written(_document(report, body, figures, plotly))


def _document(report: Report, body: Element, figures: Figures, plotly: str) -> Element:
    style, own = (files("pellucid.surface.page").joinpath(name).read_text() for name in ("page.css", "page.js"))
    scripts = [plotly.strip(), own] if figures.by_id else []
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    policy = f"default-src {NONE}; script-src {hashes or NONE}; style-src 'unsafe-inline'; img-src data:"
    add(body, script(script_json(figures.json()), id="figures", type="application/json"), *map(script, scripts))
    head = e(
        "head", e("meta", charset="utf-8"), e("meta", http_equiv="Content-Security-Policy", content=policy),
        e("meta", name="viewport", content="width=device-width, initial-scale=1"),
        e("meta", name="referrer", content="no-referrer"), e("title", f"pellucid: {report.id}"), e("style", style),
    )  # fmt: skip
    return e("html", head, body, lang="en")


def _section(title: str, *parts: Part) -> Iterable[Element]:
    """None where there is nothing to tell."""
    if any(part is not None for part in parts):
        yield e("section", e("h2", title), *parts)


def _alarms(report: Report) -> Iterable[Part]:
    for one in report.trials:
        if one.state == "not rolled back":
            yield e("div", e("b", f"Trial {one.number} was not rolled back: "), said(one.why), class_="alarm")
    if report.chain is not None and not report.chain.whole:
        yield e("div", e("b", "The audit log was changed: "), "what is told here cannot be trusted. See its section at "
                "the end.", class_="alarm")  # fmt: skip
    yield e("noscript", e("div", "The figures need JavaScript; all numbers are in the tables.", class_="alarm"))


def _conditions(report: Report) -> list[tuple[str, Part]]:
    c = report.conditions
    engine = " ".join(filter(None, (c.engine, c.engine_version))) or None
    budget = None if c.budget_ns is None else f"{duration(c.budget_ns)}, of which {duration(c.spent_ns)} were spent"
    rows = [
        ("engine", _said(engine)), ("model", _said(c.model)), ("machine", _said(c.machine)),
        ("places", _said(", ".join(c.places) or None)), ("command", trial.command(c.command)),
        ("workload", _said(c.workload)), ("traffic", _said(_traffic(c))),
        ("seed", None if c.seed is None else str(c.seed)), ("maximised", _said(c.maximise)),
    ]  # fmt: skip
    if report.kind == "trial":
        return [*rows, ("took", duration(c.spent_ns))]
    return [*rows, ("SLO", "none" if c.slo == "" else _said(c.slo)), ("budget", budget), ("error", _error(c)),
            ("allowed", _allowed(c))]  # fmt: skip


def _said(text: str | None) -> Part:
    return None if text is None else said(text)


def _traffic(c: Conditions) -> str | None:
    shown = [f"{name.removesuffix('_ns')} {duration(value) if name.endswith('_ns') else value}"
             for name, value in c.traffic.items() if value is not None]  # fmt: skip
    return ", ".join(shown) or None


def _error(c: Conditions) -> str | None:
    if c.error_ratio is None:
        return None
    return f"at most {percent(c.error_ratio)}: the chance that anything is kept which is no better"


def _allowed(c: Conditions) -> str | None:
    if c.may_restart is None:
        return None
    restart = "the serving engine may be restarted" if c.may_restart else "the serving engine is never restarted"
    return f"{restart}; {'its live settings may be set' if c.control else 'its live settings are left alone'}"


def _observed(of: Observation) -> Part:
    found = f"{of.verdict}: {', '.join(of.findings) or 'no findings'}" if of.verdict else "no diagnosis"
    return said(f"run {of.run}, {of.says}; {found}")


def _chain(chain: Chain | None) -> Iterable[Part]:
    if chain is None:
        yield e("p", "A trial that is asked for alone has none.")
        return
    held = e("b", "The chain holds" if chain.whole else "The chain is broken")
    yield e("p", held, f": {counted(chain.entries_count, 'entries')}, last hash ",
            e("span", chain.last_hash or "none", class_="code"), ".")  # fmt: skip
    yield bullets(map(said, chain.breaks))
    if chain.torn_bytes:
        yield e("p", f"The last line is torn after {chain.torn_bytes:,} bytes: its writer was killed in it, and "
                "nothing was done on its strength.")  # fmt: skip
    if chain.running:
        yield e("p", "A process is working on it: this is what was written so far.")

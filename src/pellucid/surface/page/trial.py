"""One trial of a report as a section: what was tried and why, what was measured, what came of it, what is missing."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element

from pellucid.core.units import counted, duration, percent
from pellucid.surface.page import charts
from pellucid.surface.page.answers import answers
from pellucid.surface.page.figures import Figures
from pellucid.surface.page.html import Part, bullets, e, pairs, said, table
from pellucid.tune.events import Claim
from pellucid.tune.report.ending import change
from pellucid.tune.report.shape import Course, Proposed, Ruling, Trial

ALERT = ("not rolled back", "cut off")
COURSE = ("Change of the candidate over the present configuration after each pair. Dotted: the ends of the confidence "
          "sequence, which hold whenever one looks. Grey: within the margin, a difference of no account.")
REQUESTS = ("How many of an arm's requests took at most so long, over all pairs. Both arms got the same ones in turn. "
            "Failed ones have no latency and are counted. Blocks decided, not these.")
SHOWN = (50, 90, 95, 99)         # percent, of the quantiles that are kept
HELD = {True: "held", False: "did not hold", None: "not seen, and so not held"}


def section(trial: Trial, figures: Figures) -> Element:
    return e(
        "section",
        e("h3", f"Trial {trial.number}: ", said(trial.proposed.candidate), badge(trial.state)),
        e("p", e("b", f"{_first(trial.state)}"), ": ", said(trial.why)) if trial.why else None,
        pairs(_origin(trial)),
        *_trouble(trial),
        *_speed(trial),
        *_over_time(trial.courses, figures),
        *_blocks(trial, figures),
        *_requests(trial, figures),
        *answers(trial.answers),
        *_listed("Notes", map(said, trial.notes)),
        *_listed("Not shown", map(said, trial.missing)),
        id=f"trial-{trial.number}",
    )


def badge(state: str) -> Element:
    kind = "kept" if state == "kept" else "alert" if state in ALERT else "plain"
    return e("span", state, class_=f"badge {kind}")


def proposer(of: Proposed) -> Element:
    return said(f"{of.proposer} ({of.source})" if of.source else of.proposer)


def claim(of: Claim | None) -> Part:
    return "nothing" if of is None else said(
        f"{of.metric} better by {percent(of.low_ratio)} to {percent(of.high_ratio)}")  # fmt: skip


def command(argv: Sequence[str]) -> Part:
    return e("span", shlex.join(argv), class_="said code") if argv else None


def _origin(trial: Trial) -> list[tuple[str, Part]]:
    of = trial.proposed
    rows: list[tuple[str, Part]] = [("proposed by", proposer(of))]
    if of.why:
        rows.append(("because", said(of.why)))
    rows += [("claimed", claim(of.claim)), ("guard", _ruling(trial.ruling))]
    if trial.command:
        rows.append(("its command", command(trial.command)))
    return [*rows, ("took", "not at its end" if trial.took_ns is None else duration(trial.took_ns))]


def _ruling(of: Ruling | None) -> Part:
    if of is None:
        return "was not asked"
    notes = f"; not known: {'; '.join(of.notes)}" if of.notes else ""
    return said(f"allowed, {of.way}{notes}")


def _trouble(trial: Trial) -> Iterable[Part]:
    if trial.broke is not None:
        yield e("div", e("b", f"The {trial.broke.who} broke: "), said(trial.broke.says), class_="alarm")
    for one in trial.troubles:
        yield e("div", said(one.says), class_="alarm")
        if one.log_tail:
            yield e("pre", "\n".join(one.log_tail), class_="said")


def _speed(trial: Trial) -> Iterable[Part]:
    speed = trial.speed
    yield e("h4", "Speed")
    if speed is None:
        yield e("p", "No verdict yet." if trial.took_ns is None else "No verdict: the trial ended before it.")
        return
    once = "" if not speed.error_ratio else f"; were it no better, it is called so once in {1 / speed.error_ratio:,.0f}"
    took = f"{counted(speed.pairs_count, 'pairs of blocks')}, {duration(speed.duration_ns)}{once}."
    reason = (": ", said(speed.reason)) if speed.reason else ()
    yield e("p", e("b", speed.word), *reason, f" – {took}")
    if speed.minutes_needed:
        yield e("p", f"About {speed.minutes_needed:.0f} more minutes of measuring would tell.")
    if speed.measures:
        yield table(("metric", "change", "interval", "verdict"), [
            (m.metric, _known(m.ratio), f"{change(m.low_ratio)} to {change(m.high_ratio)}", m.word or None)
            for m in speed.measures
        ])  # fmt: skip
    if speed.guards:
        rows = [(said(g.name), HELD[g.held], said(g.says)) for g in speed.guards]
        yield table(("must not get worse", "held", "measured"), rows)


def _known(ratio: float | None) -> str | None:
    return None if ratio is None else change(ratio)


def _over_time(courses: Sequence[Course], figures: Figures) -> Iterable[Part]:
    drawn = [course for course in courses if course.looks]
    if not drawn:
        return
    yield e("h4", "Verdict over time")
    yield e("p", COURSE, class_="quiet")
    yield e("div", *(figures.place(charts.course(c), _caption(c)) for c in drawn), class_="charts large")


def _caption(course: Course) -> str:
    margin = "margin not recorded" if course.margin_ratio is None else f"margin {percent(course.margin_ratio)}"
    bias = "" if not course.bias_ratio else f"; two engines alone may differ by {percent(course.bias_ratio)}"
    return f"{course.metric}, {margin}{bias}"


def _blocks(trial: Trial, figures: Figures) -> Iterable[Part]:
    if trial.arms:
        yield e("h4", "Blocks of both arms")
        yield e("p", "A dot is a block. The axes do not begin at zero.", class_="quiet")
        yield e("div", *(figures.place(charts.arms(a), a.metric) for a in trial.arms), class_="charts")


def _requests(trial: Trial, figures: Figures) -> Iterable[Part]:
    if not trial.requests:
        return
    yield e("h4", "Latencies of single requests")
    yield e("p", REQUESTS, class_="quiet")
    metrics = dict.fromkeys(s.metric for s in trial.requests)
    drawn = [(m, [s for s in trial.requests if s.metric == m and s.quantiles_ns]) for m in metrics]
    yield e("div", *(figures.place(charts.requests(of), m) for m, of in drawn if of), class_="charts")
    yield table(("metric", "arm", "requests", "failed", *(f"{share}%" for share in SHOWN)), [
        (s.metric, s.arm, f"{s.requests_count:,}", f"{s.failed_count:,}",
         *(duration(round(s.quantiles_ns[share])) if s.quantiles_ns else None for share in SHOWN))
        for s in trial.requests
    ])  # fmt: skip


def _listed(title: str, items: Iterable[Part]) -> Iterable[Part]:
    if (found := bullets(items)) is not None:
        yield e("h4", title)
        yield found


def _first(text: str) -> str:
    return text[:1].upper() + text[1:]

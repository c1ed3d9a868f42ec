"""Figures of a report, for Plotly's script: data and layout, with names of colours that the page has (`@candidate`).

    course(…)     the verdict after each pair: estimate, both ends, margins          x pairs, y change in %
    arms(…)       one metric in all blocks of both arms                              a box and every block
    requests(…)   latencies of single requests, an arm a line: share of them      x latency, y % that took no longer
    claims(…)     claimed against measured, with both ranges                         on the line: as claimed
    verdicts(…)   the goal of every trial with its interval

Plotly reads markup in texts, so texts of others are escaped for it once more (`plain`).
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from pellucid.core.units import MS_NS, S_NS, unit_of
from pellucid.tune.effect.requests import SHARES, Spread
from pellucid.tune.events import Measure
from pellucid.tune.report.shape import Arms, Claimed, Course, Look

Figure = dict[str, Any]
Numbers = Sequence[float | None]
HEIGHT, ROW_HEIGHT, SPARE_HEIGHT = 260, 26, 120     # pixels
REACH = 2.0          # chosen: an early end may be a hundred times off, and would press the rest into a line
# Of every figure, said once: under what the figure itself says.
ALIKE = {
    "axis": {"gridcolor": "@grid", "linecolor": "@grid", "zerolinecolor": "@quiet", "automargin": True,
             "fixedrange": True},
    "layout": {
        "margin": {"l": 56, "r": 12, "t": 10, "b": 44}, "paper_bgcolor": "@paper", "plot_bgcolor": "@paper",
        "font": {"color": "@ink", "size": 12, "family": "system-ui, sans-serif"}, "hovermode": "closest",
        "showlegend": False, "dragmode": False,
        "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0},
    },
}  # fmt: skip


def course(of: Course) -> Figure:
    xs = [look.pairs_count for look in of.looks]
    low, middle, high = (
        [_change(getattr(look, name)) for look in of.looks] for name in ("low_ratio", "ratio", "high_ratio"))
    both = [(x, a, b) for x, a, b in zip(xs, low, high, strict=True) if a is not None and b is not None]
    band = {"x": [x for x, _, _ in both] + [x for x, _, _ in reversed(both)],
            "y": [a for _, a, _ in both] + [b for _, _, b in reversed(both)], "type": "scatter", "mode": "none",
            "fill": "toself", "fillcolor": "@band", "hoverinfo": "skip", "showlegend": False}  # fmt: skip
    measured = _line(xs, middle, "change", dash="solid")
    data = [
        band, _line(xs, low, "low end", dash="dot"), _line(xs, high, "high end", dash="dot"),
        {**measured, "text": [plain(look.word) for look in of.looks], "hoverinfo": "x+y+text"},
    ]
    layout = {
        "xaxis": {"title": {"text": "pairs of blocks"}, "range": [0.5, max(xs, default=1) + 0.5]},
        "yaxis": {"title": {"text": "change, %"}, "zeroline": True, "range": _reach(of.looks, of.margin_ratio)},
        "shapes": _margins(of.margin_ratio),
    }
    return {"data": data, "layout": layout, "height": HEIGHT}


def arms(of: Arms) -> Figure:
    divisor, unit = _scale(of)
    data = [
        {"type": "box", "name": name, "y": [None if v is None else _short(v / divisor) for v in values],
         "boxpoints": "all", "jitter": 0.5, "pointpos": 0, "marker": {"color": colour, "size": 5, "opacity": 0.7},
         "line": {"color": colour}, "fillcolor": "@paper", "hoverinfo": "y+text+name", "showlegend": False,
         "text": list(range(1, len(values) + 1))}
        for name, values, colour in (("present", of.present, "@present"), ("candidate", of.candidate, "@candidate"))
    ]  # fmt: skip
    return {"data": data, "layout": {"yaxis": {"title": {"text": unit}}}, "height": HEIGHT}


def requests(of: Sequence[Spread]) -> Figure:
    """One metric in both arms. The axis of time grows by factors: latencies lie over several."""
    divisor, unit = _in_time([v for spread in of for v in spread.quantiles_ns])
    data = [
        {"type": "scatter", "mode": "lines", "name": f"{spread.arm}, {spread.requests_count:,}",
         "x": [_short(v / divisor) for v in spread.quantiles_ns], "y0": 0, "dy": 100 / (len(SHARES) - 1),
         "line": {"color": f"@{spread.arm}", "width": 2}, "hoverinfo": "x+y+name"}
        for spread in of
    ]  # fmt: skip
    layout = {"xaxis": {"title": {"text": unit}, "type": "log"}, "showlegend": True,
              "yaxis": {"title": {"text": "of requests, %"}, "range": [0, 100]}}  # fmt: skip
    return {"data": data, "layout": layout, "height": HEIGHT}


def claims(of: Sequence[Claimed]) -> Figure:
    """Those that came to an outcome."""
    seen = [c for c in of if c.compared.outcome_ratio is not None]
    data = [
        _cloud(name, [c for c in seen if c.compared.covered is covered], colour, symbol)
        for name, covered, colour, symbol in (("within the claim", True, "@candidate", "circle"),
                                              ("not as claimed", False, "@bad", "x"))
    ]  # fmt: skip
    ends = [v * 100 for c in seen for v in (c.compared.claim_low_ratio, c.compared.claim_high_ratio,
                                            c.compared.outcome_ratio) if v is not None]  # fmt: skip
    least, most = min(ends, default=0.0), max(ends, default=1.0)
    line = {"type": "line", "x0": least, "y0": least, "x1": most, "y1": most,
            "line": {"color": "@quiet", "dash": "dash"}}  # fmt: skip
    layout = {"xaxis": {"title": {"text": "claimed improvement, %"}}, "shapes": [line], "showlegend": True,
              "yaxis": {"title": {"text": "measured improvement, %"}}}  # fmt: skip
    return {"data": data, "layout": layout, "height": 360}


def verdicts(of: Sequence[tuple[str, Measure, bool]]) -> Figure:
    """A name, the goal's measure and whether it was kept, of each trial, the first one on top."""
    data = []
    for name, kept, colour, symbol in (("kept", True, "@good", "diamond"), ("not kept", False, "@candidate", "circle")):
        rows = [(label, m) for label, m, was in of if was is kept and m.ratio is not None]
        if rows:
            middle, low, high = (
                [_change(getattr(m, field)) for _, m in rows] for field in ("ratio", "low_ratio", "high_ratio"))
            data.append({
                "type": "scatter", "mode": "markers", "name": name, "x": middle,
                "y": [plain(label) for label, _ in rows],
                "marker": {"color": colour, "symbol": symbol, "size": 10}, "hoverinfo": "x+y",
                "error_x": _error(middle, low, high, colour),
            })  # fmt: skip
    labels = [plain(label) for label, m, _ in of if m.ratio is not None]
    axis = {"categoryorder": "array", "categoryarray": labels, "range": [len(labels) - 0.5, -0.5], "dtick": 1,
            "type": "category"}  # fmt: skip
    changes = {"title": {"text": "change, %"}, "zeroline": True, "rangemode": "tozero"}
    layout = {"xaxis": changes, "yaxis": axis, "showlegend": True}
    return {"data": data, "layout": layout, "height": SPARE_HEIGHT + ROW_HEIGHT * len(labels)}


def plain(text: str) -> str:
    return escape(text)


def _cloud(name: str, rows: Sequence[Claimed], colour: str, symbol: str) -> Figure:
    of = [c.compared for c in rows]
    xs = [(c.claim_low_ratio + c.claim_high_ratio) * 50 for c in of]
    ys, low, high = ([_percent(getattr(c, f"outcome_{end}ratio")) for c in of] for end in ("", "low_", "high_"))
    return {
        "type": "scatter", "mode": "markers", "name": name, "x": xs, "y": ys, "hoverinfo": "text+x+y",
        "marker": {"color": colour, "symbol": symbol, "size": 9},
        "error_x": _error(xs, [c.claim_low_ratio * 100 for c in of], [c.claim_high_ratio * 100 for c in of], colour),
        "error_y": _error(ys, low, high, colour),
        "text": [plain(f"trial {c.trial}: {c.candidate}, {c.compared.source}, {c.compared.metric}") for c in rows],
    }


def _error(middle: Numbers, low: Numbers, high: Numbers, colour: str) -> Figure:
    """Bars to both ends; none to an end that is open."""
    def away(ends: Numbers) -> list[float | None]:
        return [None if m is None or end is None else _short(abs(end - m)) for m, end in zip(middle, ends, strict=True)]

    return {"type": "data", "symmetric": False, "array": away(high), "arrayminus": away(low), "color": colour,
            "thickness": 1.5, "width": 4}  # fmt: skip


def _line(xs: Sequence[int], ys: Numbers, name: str, dash: str) -> Figure:
    shown = {"color": "@candidate", "dash": dash, "width": 2 if dash == "solid" else 1}
    return {"type": "scatter", "mode": "lines+markers" if dash == "solid" else "lines", "x": xs, "y": ys, "name": name,
            "line": shown, "marker": {"size": 5, "color": "@candidate"}, "hoverinfo": "x+y+name",
            "showlegend": False}  # fmt: skip


def _margins(margin_ratio: float | None) -> list[Figure]:
    if margin_ratio is None:
        return []
    low, high = 100 * (1 / (1 + margin_ratio) - 1), 100 * margin_ratio
    return [{"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": low, "y1": high, "fillcolor": "@margin",
             "line": {"width": 0}, "layer": "below"}]  # fmt: skip


def _reach(looks: Sequence[Look], margin_ratio: float | None) -> list[float]:
    """What the estimates and margins take, and of the ends as much as leaves those readable."""
    core = [v for look in looks if (v := _change(look.ratio)) is not None] + [0.0]
    core += [-200 * (margin_ratio or 0.02), 200 * (margin_ratio or 0.02)]
    span = (max(core) - min(core)) * REACH
    ends = [v for look in looks[-1:] for r in (look.low_ratio, look.high_ratio) if (v := _change(r)) is not None]
    near = [min(max(v, min(core) - span), max(core) + span) for v in ends]
    least, most = min(core + near), max(core + near)
    return [least - 0.05 * (most - least), most + 0.05 * (most - least)]


def _scale(of: Arms) -> tuple[float, str]:
    if unit_of(of.metric) != "ns":
        return 1.0, unit_of(of.metric)
    return _in_time([v for v in (*of.present, *of.candidate) if v is not None])


def _in_time(values_ns: Sequence[float]) -> tuple[float, str]:
    return (S_NS, "s") if max(values_ns) >= S_NS else (MS_NS, "ms")


def _change(ratio: float | None) -> float | None:
    return None if ratio is None else _short((ratio - 1) * 100)


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else _short(ratio * 100)


def _short(value: float) -> float:
    """What can be told apart on a screen; a page of hundreds of trials stays small."""
    return float(f"{value:.4g}")

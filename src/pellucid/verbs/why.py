"""What limits the engine, and what to do: a recording → one JSON-ready answer, the same for every surface.

    answer = why(folder, since_ns=None)
    answer["verdict"]                             one sentence
    answer["findings"][0]["moves"][0]["setting"]  "--max-num-seqs 32"

`since_ns` asks for the last part of the recording only, counted back from its newest step. Healthy engines get no
findings. What could not be seen is in `blind`, with the way to turn it on; nothing is filled in.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pellucid.catalog.knobs.spelling import Engine
from pellucid.catalog.load import metrics
from pellucid.core.run import read_info
from pellucid.core.units import counted, duration, percent, unit_of
from pellucid.diagnose.rank import Ranked, rank
from pellucid.diagnose.rule import BLIND, BROKEN, CLEAR, NOT_APPLICABLE, Kind, Value
from pellucid.diagnose.run import Report, Result, diagnose
from pellucid.diagnose.span_of.steps import Span
from pellucid.diagnose.spell import SpelledMove, shown, spell
from pellucid.store.read import RunReader, open_run
from pellucid.verbs.intake.page_notes import page_notes
from pellucid.verbs.visible.facts import latest_facts, unseen

Answer = dict[str, Any]
WAITED_RATIO = 0.2   # above it a run without findings is not called healthy: someone waited, and no rule says why


def why(folder: Path, since_ns: int | None = None) -> Answer:
    """The answer for a run's folder. Never raises for what was not recorded: that is in `blind`."""
    run = open_run(folder)
    report = diagnose(run, since_ns)
    engine = engine_of(run)
    load = report.load | energy(run)
    ranked = rank(report.results)
    blind = _blind(run, report)
    return {
        "run": read_info(folder).run_id,
        "engine": {"name": engine.name, "version": engine.version, "model": _model(run)} if engine else None,
        "verdict": verdict(ranked, report, load),
        "healthy": bool(report.span) and not (ranked or _unexplained(load) or _copies(load)) and _judged(report),
        "load": load,
        "units": {name: unit_of(name) for name in load},
        "findings": [_finding(r, engine, report.span) for r in ranked],
        "clear": _says(report, CLEAR),
        "not_applicable": _says(report, NOT_APPLICABLE),
        "broken": _says(report, BROKEN),
        "blind": blind,
        "notes": notes(run),
    }


def engine_of(run: RunReader) -> Engine | None:
    """The engine core's own description, or that of any process that has one."""
    rows = run.rows(
        "SELECT engine, engine_version, config_json FROM processes WHERE engine IS NOT NULL ORDER BY "
        "(role LIKE '%engine_core%' AND config_json IS NOT NULL) DESC, config_json IS NULL, start_ns DESC LIMIT 1"
    )
    if not rows:
        return None
    try:
        config = json.loads(rows[0]["config_json"] or "{}")
    except ValueError:
        config = {}
    return Engine(rows[0]["engine"], rows[0]["engine_version"] or "", config if isinstance(config, dict) else {})


def energy(run: RunReader) -> dict[str, Value]:
    """What a token cost, where a device tells. Absent, not zero, where none does."""
    rows = run.rows("SELECT output_token_joules FROM device_energy WHERE output_token_joules IS NOT NULL LIMIT 1")
    return dict(rows[0]) if rows else {}


def verdict(ranked: list[Ranked], report: Report, load: dict[str, Value]) -> str:
    """One sentence in plain words."""
    if report.span is None and report.load:
        mean_ns, most_ns = (duration(load[f"step_{which}_ns"] or 0) for which in ("mean", "max"))
        return f"Nothing can be judged any more: the steps have expired. Kept of them by the minute: {_doing(load)}; a step took {mean_ns} on average, {most_ns} at most."  # noqa: E501
    if report.span is None:
        return "Nothing to judge: no engine step was recorded in this span, no two metrics pages and no kernels."
    if ranked:
        first = ranked[0].result
        more = f" {len(ranked) - 1} more finding{'s' if len(ranked) > 2 else ''} below." if len(ranked) > 1 else ""
        return f"{_sentence(first.verdict.says)}{more}"
    if _copies(load):
        return f"Cannot tell: copies took {duration(load['copies_ns'] or 0)}, more than all kernels, and no rule here judges copies ({_doing(load)})."  # noqa: E501
    if not _judged(report):
        return f"Cannot tell: no rule could judge this recording ({_doing(load)})."
    if _unexplained(load):
        for_kv = (load.get("waiting_kv_time_ratio") or 0) >= WAITED_RATIO
        reason = "mostly for KV blocks, without wasted work" if for_kv else "for none of the reasons a rule here covers"
        waited = percent(load.get("waiting_time_ratio") or 0)
        return f"No setting was found that limits it, yet requests waited in {waited} of the {_whole(load)}, {reason}: offered load may exceed what the engine can do ({_doing(load)})."  # noqa: E501
    return f"Nothing to fix: {_doing(load)}."


def notes(run: RunReader) -> list[str]:
    """What is missing from the recording itself: damaged files, expired rows, lost and torn records."""
    lines = [f"{d.path.name} is damaged and was left out: {d.reason}" for d in run.damaged]
    for gone in run.rows("SELECT steps_count, end_ns - start_ns AS span_ns FROM expired_load"):
        lines.append(f"{counted(gone['steps_count'], 'steps')} in {duration(gone['span_ns'])} have expired: they are kept by the minute only, and not judged")  # noqa: E501
    for r in run.rows("SELECT DISTINCT file, damage FROM captures WHERE damage IS NOT NULL ORDER BY file"):
        lines.append(f"the trace {r['file']} is not whole: {r['damage']}")
    for r in run.rows("SELECT process, lost_count, torn_count FROM processes ORDER BY process"):
        if r["lost_count"]:
            lines.append(f"{r['lost_count']} records of {r['process']} were overwritten before they were read")
        if r["torn_count"]:
            lines.append(f"{r['torn_count']} records of {r['process']} were torn and left out")
    for r in run.rows("""SELECT process, max(probe_errors_count) AS errors, max(ring_dropped_count) AS dropped FROM host
                         GROUP BY process ORDER BY process"""):
        if r["errors"]:
            lines.append(f"the probe in {r['process']} caught {counted(r['errors'], 'errors')} of its own: steps or requests may be missing. Please report it")  # noqa: E501
        if r["dropped"]:
            lines.append(f"{counted(r['dropped'], 'records')} of {r['process']} had no room in its ring and are missing")  # noqa: E501
    return lines + page_notes(run)


def _finding(ranked: Ranked, engine: Engine | None, span: Span | None) -> Answer:
    result = ranked.result
    gain = result.verdict.gain
    assert gain is not None and span is not None  # `found` cannot be made without them
    metric = metrics()[gain.metric]
    return {
        "id": result.rule.id,
        "question": result.rule.question,
        "says": result.verdict.says,
        "evidence": dict(result.evidence),
        "units": {name: unit_of(name) for name in result.evidence},
        "persistence": _persistence(result, span),
        "gain": {
            "metric": gain.metric, "unit": metric.unit, "better": metric.better,
            "low_ratio": gain.low_ratio, "high_ratio": gain.high_ratio, "scope": gain.scope,
        },
        "moves": [_move(m, engine) for m in spelled_moves(result, engine)],
        "falsified_by": result.rule.falsified_by,
        "symptoms": [{"id": s.rule.id, "says": s.verdict.says} for s in ranked.symptoms],
        "page": f"docs/reference/rules/{result.rule.id}.md",
    }  # fmt: skip


def spelled_moves(result: Result, engine: Engine | None) -> list[SpelledMove]:
    """The moves that have a target here and that this engine can make."""
    known = engine or Engine("", "", {})
    spelled = []
    for move in result.rule.moves:
        target = result.verdict.targets.get(move.knob)
        if target is None:
            continue
        present = result.evidence.get(move.present)
        scale = target / present if present else None
        spelled.append(spell(move, target, scale, known))
    return [s for s in spelled if s is not None]


def _move(move: SpelledMove, engine: Engine | None) -> Answer:
    return {
        "knob": move.knob, "direction": move.direction, "target": move.target, "unit": move.unit,
        "setting": move.setting, "current": move.current, "current_text": shown(move, engine.config if engine else {}),
        "change": move.change, "cost": move.cost,
    }  # fmt: skip


def _persistence(result: Result, span: Span) -> Answer:
    windows = [
        {
            "start_ns": span.start_ns if w.window.start_ns is None else w.window.start_ns,
            "end_ns": span.end_ns if w.window.end_ns is None else w.window.end_ns,
            "kind": w.verdict.kind, "says": w.verdict.says,
        }
        for w in result.windows
    ]  # fmt: skip
    if result.rule.asked_of == "captures":
        return {"found_count": 1, "judged_count": 1, "windows": [], "says": "in the captured steps"}
    k, n = result.found_count(), result.judged_count()
    return {"found_count": k, "judged_count": n, "windows": windows, "says": f"in {k} of {n} windows"}


def _says(report: Report, kind: Kind) -> list[Answer]:
    return [{"id": r.rule.id, "says": r.verdict.says} | _stood_in(r) for r in report.results if r.verdict.kind == kind]


def _stood_in(result: Result) -> Answer:
    """Names the table whose rows made a rule needless: there is nothing in that for a reader to act on."""
    needless = result.rule.instead_of and result.verdict.kind == NOT_APPLICABLE and not result.evidence
    return {"instead_of": result.rule.instead_of} if needless else {}


def _blind(run: RunReader, report: Report) -> list[Answer]:
    """Rules first, then facts; each fact once, however many processes lack it, by what they said last."""
    rules = [
        {"id": r.rule.id, "reason": r.verdict.says, "collect": r.verdict.collect}
        for r in report.results if r.verdict.kind == BLIND
    ]  # fmt: skip
    facts = [
        {
            "id": name, "reason": "; ".join(sorted({f["reason"] or "" for f in said})),
            "collect": next((f["collect"] for f in said if f["collect"]), ""),
        }
        for name, said in unseen(latest_facts(run)).items()
    ]  # fmt: skip
    return rules + facts


def _judged(report: Report) -> bool:
    return any(r.verdict.kind == CLEAR for r in report.results)


def _unexplained(load: dict[str, Value]) -> bool:
    return (load.get("waiting_time_ratio") or 0) >= WAITED_RATIO


def _doing(load: dict[str, Value]) -> str:
    """The load in a few words; what was not seen is left out."""
    if captured := load.get("captures_count"):
        what = f"{counted(captured, 'kernel traces')} with {counted(load['captured_steps_count'], 'steps')}"
        return f"{what} and {_kernels(load['kernels_ns'])}"
    busy_ns, span_ns = load.get("busy_ns") or 0, load.get("span_ns") or 0
    requests, steps = (counted(load.get(f"{things}_count"), things) for things in ("requests", "steps"))
    pages = load.get("pages_count")
    words = [f"{requests} and {steps if pages is None else counted(pages, 'metrics pages')} in {duration(span_ns)}"]
    if span_ns and pages is None:
        words.append(f"in steps {percent(min(1.0, busy_ns / span_ns))} of the time")
    if (running := load.get("running_mean_count")) is not None:
        words.append(f"{running:.1f} running on average")
    if (waiting := load.get("waiting_time_ratio")) is not None:
        somebody = f"somebody waiting in {percent(waiting)} of the {_whole(load)}"
        words.append(somebody if waiting else "nobody waiting")
    if (ttft := load.get("ttft_mean_ns")) is not None:
        words.append(f"TTFT {duration(ttft)} on average")
    return ", ".join(words)


def _copies(load: dict[str, Value]) -> bool:
    """Whether a trace has more time in copies than in kernels: then what its kernels do matters little."""
    return (load.get("copies_ns") or 0) > (load.get("kernels_ns") or 0)


def _kernels(kernels_ns: Value) -> str:
    return "kernels whose times are not told" if kernels_ns is None else f"{duration(kernels_ns)} of kernels"


def _whole(load: dict[str, Value]) -> str:
    """What a share of time is a share of: pages are moments, and say nothing of what was between them."""
    return "busy time" if load.get("pages_count") is None else "metrics pages"


def _sentence(says: str) -> str:
    return f"{says[:1].upper()}{says[1:]}."


def _model(run: RunReader) -> str | None:
    rows = run.rows("SELECT model FROM processes WHERE model IS NOT NULL LIMIT 1")
    return rows[0]["model"] if rows else None

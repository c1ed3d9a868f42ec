"""docs/reference from the code: rules, metrics, observations, knobs, facts, devices, schema, settings.

    .venv/bin/python tools/gen_docs.py           writes the pages
    .venv/bin/python tools/gen_docs.py --check   exit 1 and a list when a page differs from the code
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from textwrap import dedent

from pellucid.catalog.devices.gpus import Cell, Device, Domain, catalogue, devices
from pellucid.catalog.kernels.names_of import categories, ops, rules
from pellucid.catalog.load import Observation, Seen, Spelling, facts, knobs, metrics, observations
from pellucid.catalog.load_series import exporters, scraped
from pellucid.core.settings import SETTINGS
from pellucid.core.units import duration, unit_of
from pellucid.diagnose.registry import all_rules
from pellucid.diagnose.rule import Case, Rule
from pellucid.store.schema import TABLES

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
GENERATED = "<!-- made by tools/gen_docs.py; change the code, not this page -->\n\n"


def pages() -> dict[str, str]:
    """Path under docs/reference → text."""
    found = {
        "metrics.md": metrics_page(), "knobs.md": knobs_page(), "schema.md": schema_page(),
        "settings.md": settings_page(), "facts.md": facts_page(),
        "observations.md": observations_page(), "series.md": series_page(), "devices.md": devices_page(),
        "rules/README.md": rules_page(),
    }  # fmt: skip
    return found | {f"rules/{rule.id}.md": rule_page(rule) for rule in all_rules()}


def series_page() -> str:
    """What each engine's metrics page tells, in our words; then the words."""
    intro = "What `pellucid attach` reads of a metrics page, and what it becomes. Counters are without `_total`."
    parts = ["# Metrics pages", intro, "What is on a page and not here is kept as it is, in `samples`."]
    for name, exporter in exporters().items():
        rows = [
            (f"`{raw}`", ", ".join(f"`{m}`" for m in f.names()), f.part or f.status or f.by or "–", f"{f.factor:g}",
             " ".join(filter(None, (f.since and f"from {f.since}", f.until and f"before {f.until}"))) or "–")
            for raw, f in exporter.families.items()
        ]  # fmt: skip
        parts.append(f"## {name}\n\n" + table(("family", "becomes", "part from", "times", "version"), rows).rstrip())
    words = [(f"`{name}`", m.kind, unit_of(name) or "–", m.meaning) for name, m in scraped().items()]
    parts.append("## The words\n\n" + table(("metric", "kind", "unit", "meaning"), words).rstrip())
    return GENERATED + "\n\n".join(parts) + "\n"


def kernel_classes_page() -> str:
    """What `pellucid classify` may answer, and what operators decide."""
    head = (
        "# Kernel classes",
        "What kind of work a kernel does, told from its name: `pellucid classify`. The rules are in "
        "[catalog/kernels/names](../../src/pellucid/catalog/kernels/names/words.toml), which says how they decide. "
        "A name that no rule knows is `unknown`, with confidence 0. Details are generations, libraries and formats; "
        "a name that tells no detail has none.",
    )
    rows = [
        (f"`{name}`", meaning, ", ".join(f"`{d}`" for d in dict.fromkeys(r.detail for r in rules()[name]) if d) or "–")
        for name, meaning in categories().items()
    ]
    decided = [(", ".join(f"`{c}`" for c in op.over) or "none", f"`{op.category}`", ", ".join(op.name)) for op in ops()]
    return GENERATED + "\n\n".join((
        *head, table(("class", "meaning", "details known"), rows).rstrip(),
        "## Operators",
        "Where the operator that launched a kernel is known, it decides for names that are `unknown`, and for kernels "
        "of these classes, which do many kinds of work. The first line that has one of the words counts.",
        table(("over", "becomes", "where the operator has"), decided).rstrip(),
    )) + "\n"  # fmt: skip


def rules_page() -> str:
    rows = [(f"[{r.id}]({r.id}.md)", r.question) for r in all_rules()]
    return GENERATED + "# Rules\n\n" + table(("rule", "question"), rows)


def rule_page(rule: Rule) -> str:
    module = import_module(f"pellucid.diagnose.rules.{rule.id}")
    story = (module.__doc__ or "").strip()
    needs = [
        (n.table, ", ".join(n.columns) or "–", ", ".join(n.optional) or "–", n.collect) for n in rule.needs
    ]
    limits = [
        (name, f"{value.value:g} {value.unit}", value.because)
        for name, value in vars(module).items()
        if value in rule.limits
    ]
    moves = [(f"[{m.knob}](../knobs.md#{m.knob})", m.direction, m.cost) for m in rule.moves]
    views = f" Through views of the store: {', '.join(f'`{v}`' for v in rule.views)}." if rule.views else ""
    explained = ", ".join(f"[{r}]({r}.md)" for r in rule.explained_by) or "no other rule"
    return GENERATED + "\n\n".join((
        f"# {rule.id}", f"**{rule.question}**", _story(story),
        "## Needs", table(("table", "columns", "used when there", "how to turn them on"), needs),
        f"## Evidence\n\nOne row; it is printed with the verdict.{views}",
        f"```sql\n{dedent(rule.evidence).strip()}\n```",
        "## Limits", table(("limit", "value", "because"), limits),
        "## Moves", table(("knob", "direction", "cost"), moves),
        f"Falsified when {rule.falsified_by}.", f"A symptom, not a cause, when found beside: {explained}.",
        "## Cases", *(_case(c) for c in rule.cases),
    )) + "\n"  # fmt: skip


def _story(docstring: str) -> str:
    """The docstring's headings become headings of the page."""
    lines = []
    for line in docstring.splitlines():
        heading = line in ("Looks like", "Why it costs", "Not this when")
        lines.append(f"## {line}\n" if heading else line.strip())
    return "\n".join(lines)


def _case(case: Case) -> str:
    tables = "\n\n".join(f"{name}\n{_aligned(text)}" for name, text in case.tables.items())
    says = f": “… {case.says} …”" if case.says else ""
    return f"**{case.name}** → {case.kind}{says}\n\n```\n{tables}\n```"


def _aligned(text: str) -> str:
    rows = [line.split() for line in text.strip().splitlines()]
    widths = [max(len(row[n]) for row in rows if n < len(row)) for n in range(len(rows[0]))]
    return "\n".join("  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=False)).rstrip() for row in rows)


def metrics_page() -> str:
    rows = [(f"`{n}`", m.unit, m.better, m.definition, m.otel or "–") for n, m in metrics().items()]
    head = "# Metrics\n\nGains are stated in these. Symbols: [definitions](../definitions.md).\n\n"
    return GENERATED + head + table(("metric", "unit", "better", "definition", "OpenTelemetry"), rows)


def knobs_page() -> str:
    parts = ["# Knobs", *KNOBS_INTRO]
    for name, k in knobs().items():
        one_of = f"One of {', '.join(f'`{c}`' for c in k.choices)}"
        span = one_of if k.choices else f"From {k.low:g} to {k.high:g} {k.unit}"
        meaning = f"{k.meaning[:1].upper()}{k.meaning[1:]}. {span}; takes effect: {k.change}"
        live = f"; downwards also live, as [{k.live_as}](#{k.live_as})" if k.live_as else ""
        parts.append(f"## {name}\n\n{meaning}{live}. Answers: {FIDELITY[k.fidelity]}.")
        parts.append(f"Cost: {k.cost}.\n\nCouplings: {'; '.join(k.couplings)}.")
        rows = [
            (s.engine, f"`{s.flag or s.env or s.client}`" if s.flag or s.env or s.client else "–", s.form,
             f"[`control.{name}`](facts.md)" if s.probe else "–", _when(s), f"`{s.config}`" if s.config else "–")
            for s in k.spellings
        ]  # fmt: skip
        parts.append(table(("engine", "spelling", "form", "live", "when", "present value from"), rows).rstrip())
    return GENERATED + "\n\n".join(parts) + "\n"


KNOBS_INTRO = (
    "Settings that can be changed, and how each engine spells them. The first spelling that fits is used. A user may "
    "say our name or the engine's: `max_running_requests`, `max_num_seqs` and `--max-num-seqs` are one knob.",
    "*Live*: can be changed in a running engine that was started with live control (`pellucid live`); in which "
    "versions is in [facts](facts.md). Every spelling is held against the engine's own argument parser by a test.",
)
FIDELITY = {
    "lossless": "in theory the same, which is tested and not believed", "numbers": "computed in other numbers",
    "weights": "of other weights", "input": "to another prompt",
}


def _when(s: Spelling) -> str:
    conditions = (
        (s.device, f"device is {s.device}"), (s.not_device, f"device is not {s.not_device}"),
        (s.needs_config, f"`{s.needs_config}` is set"), (s.since, f"from {s.since}"), (s.until, f"before {s.until}"),
    )  # fmt: skip
    return ", ".join(text for value, text in conditions if value) or "always"


def schema_page() -> str:
    parts = ["# Schema", "Times are CLOCK_MONOTONIC ns. A null is “not seen”, never zero; `facts` says why."]
    for t in TABLES.values():
        raw = " Raw: expires first." if t.raw else ""
        rows = [(f"`{c.name}`", str(c.type), unit_of(c.name) or "–", c.meaning) for c in t.columns]
        columns = table(("column", "type", "unit", "meaning"), rows).rstrip()
        parts.append(f"## {t.name}\n\nA row is {t.row}.{raw}\n\n{columns}")
    return GENERATED + "\n\n".join(parts) + "\n"


def facts_page() -> str:
    """fact × process × engine version."""
    columns = sorted({_version(s) for f in facts().values() for s in f.seen})
    rows = []
    for name, fact in facts().items():
        states = {_version(s): _state(s) for s in fact.seen}
        meaning = fact.meaning + (f" (only with {fact.only_with})" if fact.only_with else "")
        rows.append((f"`{name}`", fact.role, meaning, *(states.get(c, "not tried") for c in columns)))
    head = (
        "# Facts\n\nWhat each process of an engine shows. Tests compare the table with real engines (0.32, 0.28), with "
        "the recordings of 0.24 on H200s and with wheels, and fail on any difference. Where it says *by signatures* "
        "nothing ran: the names, parameters and attributes the hooks need were looked up in the engine's wheel, as "
        "`python -m tools.check_wheel VERSION` does for any version.\n\n*Visible* is what the hooks of some process "
        "see. Where the probe's cost is above its budget it first samples and then sheds what it can do without "
        "(`worker.times`, `worker.graph_mode`, `worker.padded_tokens`, experts, times of parts). So a recording can "
        "say of a visible fact that it was blind for a while, and why: some of those on H200s do. Ranks that would say "
        "what the first rank of their group says are blind throughout.\n\n"
    )
    return GENERATED + head + table(("fact", "process", "meaning", *columns), rows)


def _version(seen: Seen) -> str:
    return f"{seen.engine} {seen.version} " + ("by signatures" if seen.device == "any" else seen.device)


def _state(seen: Seen) -> str:
    """Where the column does not say already that nothing ran, the cell does."""
    return seen.state + (", by signatures" if seen.basis == "signatures" and seen.device != "any" else "")


def observations_page() -> str:
    """One table per area: what is watched, and when it is called worse."""
    head = (
        "# Observations",
        "Rows of the observation matrix: `pellucid why --matrix`, and in short `pellucid top --matrix`. "
        "How value, baseline and state are made is in [definitions](../definitions.md#the-observation-matrix).",
    )
    parts = list(head)
    for area in dict.fromkeys(o.area for o in observations().values()):
        rows = [
            (f"`{n}`", o.meaning, _formula(n, o), ", ".join(f"`{x}`" for x in o.needs), *_limits(n, o))
            for n, o in observations().items() if o.area == area
        ]  # fmt: skip
        columns = ("row", "meaning", "value", "needs", "state", "because", "catalogue baseline")
        parts.append(f"## {area}\n\n{table(columns, rows).rstrip()}")
    return GENERATED + "\n\n".join(parts) + "\n"


def _formula(name: str, row: Observation) -> str:
    folder = "../../src/pellucid/store/views/window"
    views = ", ".join(f"[{v}]({folder}/{v}.sql)" for v in row.views)
    scale = " × 10⁹" if name.endswith("_per_s") else ""
    column = f"`{row.value}`" if row.value else f"`{row.numerator}` ÷ `{row.denominator}`{scale}"
    of_page = ""
    if row.page:
        part = f"`{row.page.value}`" if row.page.value else f"`{row.page.numerator}` ÷ `{row.page.denominator}`{scale}"
        of_page = f". From a metrics page: {part}; at least {row.page.at_least} (`{row.page.over}`)"
    return f"{column} of {views}; judged over at least {row.at_least} (`{row.over}`){of_page}"


def _limits(name: str, row: Observation) -> tuple[str, str, str]:
    if row.worse == "neither":
        return "shown, not judged", "neither way is worse", "–"
    side = "above" if row.worse == "higher" else "below"
    least = f"what is below {_figure(name, row.least)} counts as {_figure(name, row.least)}"
    states = f"{row.watch_ratio:g} times {side} the baseline: watch; {row.bad_ratio:g} times: bad; {least}"
    baseline = "none" if row.baseline is None else f"{_figure(name, row.baseline)}: {row.baseline_source}"
    return states, row.because, baseline


def _figure(name: str, value: float) -> str:
    return duration(value) if name.endswith("_ns") else f"{value:g}"


def devices_page() -> str:
    """Each device, each cell: value, source, and what is doubtful about it."""
    found = catalogue()
    intro = (
        "# Devices",
        "What a device can do at most. Dense figures of one GPU; GB of memory are 10⁹ bytes; links are both directions "
        "together. *Disputed*: sources differ, and whatever is computed from the cell says so. *Recalled*: not looked "
        "up again. A dash is what the hardware does not have, never 0. A device is found by the name its driver "
        "prints, whole: an H100 PCIe is not an H100 SXM, and what is not here has no ceilings.",
    )
    kinds = [
        (f"`{k}`", g.matrix_instruction, "yes" if g.two_processor_mma else "no", g.note)
        for k, g in found.generations.items()
    ]
    columns = ("generation", "matrix instruction", "pairs of processors", "note")
    parts = [*intro, "## Generations", table(columns, kinds)]
    parts += [_device(device) for device in devices().values()]
    parts += [_domain(domain) for domain in found.domains.values()]
    parts += ["## Sources", table(("key", "is"), [(f"`{k}`", text) for k, text in found.sources.items()])]
    return GENERATED + "\n\n".join(p.rstrip() for p in parts) + "\n"


def _device(device: Device) -> str:
    entry = device.entry
    names = ", ".join(f"`{name}`" for name in entry.driver_names)
    rows = [_cell(f"{name}_flop_per_s", cell) for name, cell in entry.peak_flop_per_s.items()]
    rows += [_cell(name, cell) for name, cell in entry.cells.items()]
    text = f"## {entry.name}\n\n`{device.key}`, {entry.form}, {entry.generation}, {entry.architecture}. "
    text += f"The driver prints {names}.\n\n{table(CELL_COLUMNS, rows)}"
    if entry.measured:
        reached = [(f"`{m.quantity}`", f"{m.low:,g}", f"{m.high:,g}", m.by, m.conditions) for m in entry.measured]
        text += "\nMeasured:\n\n" + table(("quantity", "low", "high", "by", "conditions"), reached)
    return text


def _domain(domain: Domain) -> str:
    rows = [_cell(name, cell) for name, cell in domain.cells.items()]
    return f"## {domain.name}\n\nOf `{domain.device}`.\n\n" + table(CELL_COLUMNS, rows)


CELL_COLUMNS = ("cell", "value", "source", "basis", "doubt", "note")


def _cell(name: str, cell: Cell) -> tuple[str, ...]:
    value = "–" if cell.absent == "no hardware" else str(cell.absent)
    if cell.value is not None:
        value = f"{cell.value:,.0f}" if cell.value < 1e12 else f"{cell.value / 1e12:,.10g}e12"
    doubt = f"disputed: {cell.disputed}" if cell.disputed else "–"
    return f"`{name}`", value, f"`{cell.source}`", cell.basis, doubt, cell.note or cell.absent or "–"


def settings_page() -> str:
    rows = [(f"`{s.env}`", f"`{s.default}`", s.unit, s.help) for s in SETTINGS]
    head = "# Settings\n\nEnvironment variables.\n\n"
    return GENERATED + head + table(("variable", "default", "unit", "meaning"), rows)


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(c.replace("|", "\\|") for c in line) + " |\n" for line in lines)


def differences(folder: Path, wanted: Mapping[str, str]) -> list[str]:
    """Pages that are missing, differ, or have no code any more."""
    differ = [n for n, text in wanted.items() if not (folder / n).is_file() or (folder / n).read_text() != text]
    stale = [f"rules/{p.name}" for p in (folder / "rules").glob("*.md") if f"rules/{p.name}" not in wanted]
    return sorted(differ + stale)


def main() -> int:
    wanted = pages()
    if "--check" in sys.argv[1:]:
        differ = differences(REFERENCE, wanted)
        for name in differ:
            print(f"docs/reference/{name} differs from the code. Try: python tools/gen_docs.py", file=sys.stderr)
        return 1 if differ else 0
    for name, text in wanted.items():
        (REFERENCE / name).parent.mkdir(parents=True, exist_ok=True)
        (REFERENCE / name).write_text(text)
    for name in set(differences(REFERENCE, wanted)):
        (REFERENCE / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The figures of one page: each gets a place in it, and their data goes into one script at its end.

    figures = Figures()
    figures.place(course(…), "output_tokens_per_s")      <figure><div class="chart" id="figure-1">…
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import Element

from pellucid.surface.page.charts import ALIKE, Figure
from pellucid.surface.page.html import Part, e


@dataclass(slots=True)
class Figures:
    by_id: dict[str, Figure] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        return {"alike": ALIKE, "figures": self.by_id}

    def place(self, figure: Figure, *caption: Part) -> Element:
        name = f"figure-{len(self.by_id) + 1}"
        self.by_id[name] = figure
        room = e("div", id=name, class_="chart", style=f"min-height:{figure['height']}px")
        return e("figure", e("figcaption", *caption), room)

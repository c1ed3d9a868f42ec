// Draws the figures of the page when they come into view, in the page's colours; all of them before it is printed.
"use strict";
(() => {
  const { alike, figures } = JSON.parse(document.getElementById("figures").textContent);
  const config = { displayModeBar: false, displaylogo: false, responsive: true, showTips: false };
  const drawn = new Set();

  function coloured(value, style) {
    if (typeof value === "string" && /^@[a-z]+$/.test(value)) return style.getPropertyValue("--" + value.slice(1)).trim();
    if (Array.isArray(value)) return value.map((one) => coloured(one, style));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, coloured(one, style)]));
  }

  function draw(place) {
    const figure = coloured(figures[place.id], getComputedStyle(document.documentElement));
    const { axis, layout } = coloured(alike, getComputedStyle(document.documentElement));
    const own = figure.layout;
    const axes = { xaxis: { ...axis, ...own.xaxis }, yaxis: { ...axis, ...own.yaxis } };
    Plotly.react(place, figure.data, { ...layout, ...own, ...axes, height: figure.height }, config);
    drawn.add(place);
  }

  const places = [...document.querySelectorAll(".chart")];
  const watch = new IntersectionObserver((seen) => {
    for (const one of seen) if (one.isIntersecting) { watch.unobserve(one.target); draw(one.target); }
  }, { rootMargin: "600px" });
  places.forEach((place) => watch.observe(place));

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach(draw));
  matchMedia("print").addEventListener("change", (now) => (now.matches ? places : [...drawn]).forEach(draw));
  addEventListener("beforeprint", () => places.forEach(draw));
  addEventListener("afterprint", () => drawn.forEach(draw));
})();

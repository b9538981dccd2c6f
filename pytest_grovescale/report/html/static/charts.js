// Charts over time: objects, CPU, memory and API requests.

const CHART_HEIGHT = 216;
const COLOURS = 9;
const INTEGERS = Array.from({ length: 27 }, (_, index) => [1, 2, 5][index % 3] * 10 ** Math.floor(index / 3));

/** Counts on one time axis: a count stays as it is until its next point. */
function aligned(timeline, points) {
  const times = [...new Set([...points.flatMap((series) => series.at_s), timeline.seconds])].sort((a, b) => a - b);
  const columns = points.map((series) => {
    let next = 0;
    let value = null;
    return times.map((at) => {
      while (next < series.at_s.length && series.at_s[next] <= at) value = series.values[next++];
      return value;
    });
  });
  return [times, ...columns];
}

/** Bins on one time axis; each value holds until the next bin, the last one until the end. */
function binned(timeline, bins) {
  const times = bins[0].values.map((_, index) => index * timeline.bin_s);
  const end = Math.max(timeline.seconds, times.at(-1));
  return [[...times, end], ...bins.map((bin) => [...bin.values, bin.values.at(-1)])];
}

function summed(rows) {
  return rows[0].values.map((_, index) => rows.reduce((sum, row) => sum + row.values[index], 0));
}

/** The names' colours where they are processes, the same all over the page; else by their order. */
const processColours = new Map();
const ofProcess = (name, index) => processColours.get(name) ?? index;
const inOrder = (_, index) => index;

const UNITS = { series: "series", value: "value", "per-second": "per second" };
const METRICS = { series: whole, value: three, "per-second": (value) => `${three(value)}/s` };

/** What metrics endpoints served: each value stands from one scrape to the next. */
function curves(timeline, wanted) {
  return timeline.metrics
    .filter(wanted)
    .map((curve) => ({ name: curve.name, series: curve.lines.map((line) => line.name), data: aligned(timeline, curve.lines), show: METRICS[curve.unit], axis: UNITS[curve.unit], place: curve.unit === "series" ? ofProcess : inOrder }));
}

/** What a chart can show: name → series, times and values; the first is shown at first. */
const CHOICES = {
  objects(timeline) {
    const size = (counts) => Math.max(...counts.series.flatMap((series) => series.values));
    return timeline.objects
      .toSorted((a, b) => size(b) - size(a))
      .map((counts) => ({ name: counts.watch, series: counts.series.map((series) => series.name), data: aligned(timeline, counts.series), show: whole, axis: counts.watch.replace(/ \(.*/, ""), place: inOrder }));
  },
  cores(timeline) {
    if (!timeline.cores.length) return [];
    return [{ name: "cores", series: timeline.cores.map((bin) => bin.name), data: binned(timeline, timeline.cores), show: (value) => `${three(value)} cores`, axis: "cores", place: ofProcess }];
  },
  rss(timeline) {
    if (!timeline.rss_bytes.length) return [];
    return [{ name: "memory", series: timeline.rss_bytes.map((bin) => bin.name), data: binned(timeline, timeline.rss_bytes), show: bytes, axis: "resident memory", place: ofProcess }];
  },
  requests(timeline) {
    if (!timeline.requests.length) return [];
    const identities = Map.groupBy(timeline.requests, (row) => row.identity);
    const sums = [...identities].map(([name, rows]) => ({ name, values: summed(rows) }));
    const shown = (name, bins, place) => ({ name, series: bins.map((bin) => bin.name), data: binned(timeline, bins), show: (value) => `${three(value)}/s`, axis: "requests per second", place });
    return [
      shown("all identities", sums, ofProcess),
      ...[...identities].map(([name, rows]) => shown(`${name}, by verb`, rows.map((row) => ({ name: row.verb, values: row.values })), inOrder)),
    ];
  },
  series(timeline) {
    return curves(timeline, (curve) => curve.unit === "series");
  },
  families(timeline) {
    return curves(timeline, (curve) => curve.unit !== "series");
  },
};

function phasesBehind(timeline) {
  return (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.fillStyle = colour("--band");
    timeline.phases.forEach((phase, index) => {
      const left = plot.valToPos(phase.start_s, "x", true);
      if (index % 2 === 0) ctx.fillRect(left, bbox.top, plot.valToPos(phase.end_s, "x", true) - left, bbox.height);
    });
    ctx.strokeStyle = colour("--muted");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([3 * devicePixelRatio, 4 * devicePixelRatio]);
    for (const milestone of timeline.milestones) {
      const at = Math.round(plot.valToPos(milestone.at_s, "x", true)) + 0.5;
      ctx.beginPath();
      ctx.moveTo(at, bbox.top);
      ctx.lineTo(at, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  };
}

function plotOptions(choice, timeline, width, sync) {
  const text = colour("--muted");
  const grid = { stroke: colour("--line"), width: 1 };
  const ends = [choice.data[0][0], choice.data[0].at(-1)];
  const wholeRun = (_, low, high) => (low === ends[0] && high === ends[1] ? [0, timeline.seconds] : [low, high]);
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return {
    width,
    height: CHART_HEIGHT,
    cursor: { sync: { key: sync }, focus: { prox: 24 }, points: { size: 6 } },
    focus: { alpha: 0.35 },
    legend: { live: true },
    scales: { x: { time: false, range: wholeRun }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.06 : 1] } },
    padding: [8, 12, 0, 0],
    axes: [
      { stroke: text, grid, ticks: grid, font, size: 30, label: "time since the recording began", labelFont: font, labelSize: 18, labelGap: 0, values: (_, ticks) => ticks.map((tick) => `${+tick.toFixed(3)} s`) },
      { stroke: text, grid, ticks: grid, font, size: 64, label: choice.axis, labelFont: font, labelSize: 18, labelGap: 0, ...(choice.show === whole ? { incrs: INTEGERS } : {}), values: (_, ticks) => ticks.map((tick) => choice.show(tick).replace(/ cores$|\/s$/, "")) },
    ],
    series: [
      { label: "at", value: (_, at) => (at === null || at === undefined ? "–" : `${at.toFixed(at % 1 ? 3 : 0)} s`) },
      ...choice.series.map((name, index) => ({
        label: name,
        stroke: colour(`--c${(choice.place(name, index) % COLOURS) + 1}`),
        dash: choice.place(name, index) >= COLOURS ? [6, 3] : undefined,
        width: 1.6,
        points: { show: false },
        paths: uPlot.paths.stepped({ align: 1 }),
        value: (_, value) => (value === null || value === undefined ? "–" : choice.show(value)),
      })),
    ],
    hooks: { drawClear: [phasesBehind(timeline)] },
  };
}

function reachLegend(plot, host) {
  const labels = $$(".u-legend .u-series th", host).slice(1);
  labels.forEach((label, index) => {
    label.tabIndex = 0;
    label.setAttribute("role", "button");
    const tell = () => label.setAttribute("aria-pressed", String(plot.series[index + 1].show));
    tell();
    label.addEventListener("click", () => queueMicrotask(tell));
    label.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      label.click();
    });
  });
}

function moveByKeys(host, plotOf, choiceOf, said) {
  let index = 0;
  host.addEventListener("keydown", (event) => {
    const plot = plotOf();
    if (event.target !== host || !plot || !["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
    event.preventDefault();
    const last = plot.data[0].length - 1;
    const step = event.shiftKey ? 10 : 1;
    const to = { ArrowLeft: index - step, ArrowRight: index + step, Home: 0, End: last }[event.key];
    index = Math.max(0, Math.min(last, to));
    plot.setCursor({ left: plot.valToPos(plot.data[0][index], "x"), top: CHART_HEIGHT / 2 });
    const choice = choiceOf();
    const values = choice.series.map((name, n) => [name, plot.data[n + 1][index]]).filter(([, value]) => value !== null && value !== undefined);
    said.textContent = `${three(plot.data[0][index])} s: ${values.map(([name, value]) => `${name} ${choice.show(value)}`).join(", ")}`;
  });
}

function tableOf(choice) {
  const [times, ...columns] = choice.data;
  const every = Math.max(1, Math.ceil(times.length / 60));
  const head = element("tr", {}, ...["at", ...choice.series].map((name) => element("th", { scope: "col", className: "n", textContent: name })));
  const rows = times
    .map((at, index) => [at, index])
    .filter(([, index]) => index % every === 0 || index === times.length - 1)
    .map(([at, index]) => {
      const cells = columns.map((column) => column[index] ?? null).map((value) => (value === null ? "–" : choice.show(value)));
      return element("tr", {}, ...[`${three(at)} s`, ...cells].map((text) => element("td", { className: "n", textContent: text })));
    });
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
}

function makeChart(figure, timeline, sync) {
  const choices = CHOICES[figure.dataset.chart](timeline);
  if (!choices.length) {
    figure.hidden = true;
    return;
  }
  const host = $(".plot", figure);
  const select = $(".chart-choice select", figure);
  const details = $(".as-table", figure);
  select.append(...choices.map((choice, index) => element("option", { value: index, textContent: choice.name })));
  $(".chart-choice", figure).hidden = choices.length < 2;
  const chosen = () => choices[Number(select.value) || 0];
  let plot = null;
  const draw = () => {
    plot?.destroy();
    plot = new uPlot(plotOptions(chosen(), timeline, host.clientWidth, sync), chosen().data, host);
    reachLegend(plot, host);
  };
  const tell = () => details.open && $(".scroll", details).replaceChildren(tableOf(chosen()));
  details.addEventListener("toggle", tell);
  select.addEventListener("change", () => {
    draw();
    tell();
  });
  moveByKeys(host, () => plot, chosen, $(".chart-value", figure));
  whenNear(figure, () => {
    draw();
    drawn.add(draw);
    new ResizeObserver(() => {
      if (plot.width !== host.clientWidth) plot.setSize({ width: host.clientWidth, height: CHART_HEIGHT });
    }).observe(host);
  });
}

const waiting = new Map();
const near = new IntersectionObserver(
  (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => wake(entry.target)),
  { rootMargin: "800px" },
);

function wake(target) {
  near.unobserve(target);
  const draw = waiting.get(target);
  waiting.delete(target);
  draw?.();
}

/** Draw something when it is about to be seen, or printed. */
function whenNear(target, draw) {
  waiting.set(target, draw);
  near.observe(target);
}
let themeOnScreen = null;
addEventListener("beforeprint", () => {
  themeOnScreen = document.documentElement.dataset.theme;
  showTheme("light"); // paper is white
  [...waiting.keys()].forEach(wake);
});
addEventListener("afterprint", () => showTheme(themeOnScreen));

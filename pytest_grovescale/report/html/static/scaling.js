// Log-log charts of a sweep: runs as points, fits as lines, and a dashed line of exponent 1 to hold them against.

const SCALING_HEIGHT = 280;
const MOST_TICKS = 7;
const SCALING_UNITS = { s: seconds, bytes };
const SCALING_AXES = { s: "time", bytes: "memory" };

const median = (sorted) => (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;

/** Sizes, and of each metric the median of its runs at each size; null where no run has a figure. */
function medians(metrics) {
  const sizes = [...new Set(metrics.flatMap((metric) => metric.points.map(([size]) => size)))].sort((a, b) => a - b);
  const columns = metrics.map((metric) =>
    sizes.map((size) => {
      const figures = metric.points.filter((point) => point[0] === size).map(([, figure]) => figure);
      return figures.length ? median(figures.sort((a, b) => a - b)) : null;
    }),
  );
  return [sizes, ...columns];
}

const fitted = (metric, size) => metric.factor * size ** metric.exponent;

/** The ends of an axis around some figures, at least so many powers of ten apart. */
function around(figures, decades) {
  const [low, high] = [Math.log10(Math.min(...figures)), Math.log10(Math.max(...figures))];
  const reach = Math.max(1.12 * (high - low), decades) / 2;
  return [10 ** ((low + high) / 2 - reach), 10 ** ((low + high) / 2 + reach)];
}

/** Round figures between the ends of a logarithmic axis: as many as it has room for. */
function logTicks(low, high) {
  const powers = Array.from({ length: Math.ceil(Math.log10(high / low)) + 2 }, (_, index) => Math.floor(Math.log10(low)) + index);
  const ticks = (mantissas, every) =>
    powers
      .filter((power) => power % every === 0)
      .flatMap((power) => mantissas.map((mantissa) => Number(`${mantissa}e${power}`)))
      .filter((tick) => tick >= low && tick <= high);
  const choices = [[[1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9], 1], [[1, 2, 3, 5, 7], 1], [[1, 2, 5], 1], [[1, 3], 1], [[1], 1], [[1], 2], [[1], 3]];
  const found = choices.map((choice) => ticks(...choice));
  return found.find((some) => some.length <= MOST_TICKS) ?? found.at(-1);
}

/** Of the sizes those whose names do not run into each other; the largest always. */
function apart(plot, sizes) {
  let next = Infinity;
  return sizes.toReversed().filter((size) => {
    const at = plot.valToPos(size, "x");
    const kept = next - at >= 34;
    if (kept) next = at;
    return kept;
  }).reverse();
}

/** A straight line on logarithmic axes, inside of the plot. */
function drawLine(plot, [from, to], figureOf, dash) {
  const { ctx } = plot;
  ctx.setLineDash(dash.map((length) => length * devicePixelRatio));
  ctx.beginPath();
  ctx.moveTo(plot.valToPos(from, "x", true), plot.valToPos(figureOf(from), "y", true));
  ctx.lineTo(plot.valToPos(to, "x", true), plot.valToPos(figureOf(to), "y", true));
  ctx.stroke();
}

function inside(plot, draw) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  draw(ctx);
  ctx.restore();
}

/** The metric that the line of exponent 1 starts with: that in focus, else the steepest that is shown. */
function leading(plot, metrics, focus) {
  const shown = (index) => plot.series[index + 1].show && metrics[index].exponent !== null;
  if (focus !== null && shown(focus)) return metrics[focus];
  return metrics.find((_, index) => shown(index));
}

function drawProportion(plot, metrics, focus) {
  const metric = leading(plot, metrics, focus);
  if (!metric) return;
  const start = plot.data[0][0];
  inside(plot, (ctx) => {
    ctx.strokeStyle = colour("--muted");
    ctx.lineWidth = 1.2 * devicePixelRatio;
    drawLine(plot, [start, plot.scales.x.max], (size) => (fitted(metric, start) * size) / start, [5, 4]);
  });
}

function drawMetric(plot, metric, index, faded) {
  const radius = 3.2 * devicePixelRatio;
  inside(plot, (ctx) => {
    ctx.globalAlpha = faded ? 0.3 : 1;
    ctx.strokeStyle = ctx.fillStyle = colour(`--c${(index % COLOURS) + 1}`);
    ctx.lineWidth = 1.6 * devicePixelRatio;
    if (metric.exponent !== null) drawLine(plot, [plot.data[0][0], plot.data[0].at(-1)], (size) => fitted(metric, size), index >= COLOURS ? [2, 2] : []);
    ctx.globalAlpha *= 0.75;
    for (const [size, figure] of metric.points) {
      ctx.beginPath();
      ctx.arc(plot.valToPos(size, "x", true), plot.valToPos(figure, "y", true), radius, 0, 2 * Math.PI);
      ctx.fill();
    }
  });
}

function scalingOptions(chart, parameter, data, width, state) {
  const { metrics } = chart;
  const show = SCALING_UNITS[chart.unit] ?? three;
  const sizes = data[0];
  const across = around(sizes, 0.3);
  const text = colour("--muted");
  const grid = { stroke: colour("--line"), width: 1 };
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const figures = (plot) => {
    const shown = metrics.filter((_, index) => plot.series[index + 1].show);
    const found = shown.flatMap((metric) => metric.points.map(([, figure]) => figure));
    return found.length ? found : metrics[0].points.map(([, figure]) => figure);
  };
  return {
    width,
    height: SCALING_HEIGHT,
    cursor: { drag: { x: false, y: false }, focus: { prox: 30 }, points: { size: 9, width: 2, fill: colour("--surface"), stroke: (_, index) => colour(`--c${((index - 1) % COLOURS) + 1}`) } },
    focus: { alpha: 1 },
    legend: { live: true, markers: { fill: (_, index) => (index ? colour(`--c${((index - 1) % COLOURS) + 1}`) : null) } },
    padding: [10, 14, 0, 0],
    scales: {
      x: { time: false, distr: 3, range: () => across },
      y: { distr: 3, range: (plot) => around(figures(plot), Math.log10(across[1] / across[0]) * 0.8) },
    },
    axes: [
      { stroke: text, grid, ticks: grid, font, size: 30, label: parameter, labelFont: font, labelSize: 18, labelGap: 0, splits: (plot) => apart(plot, sizes), filter: (_, splits) => splits, values: (_, ticks) => ticks.map((tick) => tick.toLocaleString("en")) },
      { stroke: text, grid, ticks: grid, font, size: 62, label: SCALING_AXES[chart.unit] ?? chart.unit, labelFont: font, labelSize: 18, labelGap: 0, splits: (_, __, low, high) => logTicks(low, high), filter: (_, splits) => splits, values: (_, ticks) => ticks.map((tick) => show(tick).replace(/\.0+(?= |$)/, "")) },
    ],
    series: [
      { label: parameter, value: (_, size) => (size === null || size === undefined ? "–" : size.toLocaleString("en")) },
      ...metrics.map((metric, index) => ({
        label: metric.name,
        stroke: colour(`--c${(index % COLOURS) + 1}`),
        paths: () => null, // drawn by the hook below: what the pointer finds are medians, what is seen are runs
        points: { show: false },
        value: (_, value) => (value === null || value === undefined ? "–" : show(value)),
      })),
    ],
    hooks: {
      drawSeries: [(plot, index) => plot.series[index].show && drawMetric(plot, metrics[index - 1], index - 1, state.focus !== null && state.focus !== index - 1)],
      draw: [(plot) => state.focus !== null && plot.series[state.focus + 1].show && drawMetric(plot, metrics[state.focus], state.focus, false)],
      drawAxes: [(plot) => drawProportion(plot, metrics, state.focus)],
      setSeries: [
        (plot, index) => {
          const focus = index ? index - 1 : null;
          if (focus === state.focus) return;
          state.focus = focus;
          plot.redraw(false);
        },
      ],
    },
  };
}

/** Left and right move through sizes, up and down through metrics; what is there is said. */
function readByKeys(host, plotOf, chart, parameter, said) {
  const show = SCALING_UNITS[chart.unit] ?? three;
  let [size, metric] = [0, 0];
  host.addEventListener("keydown", (event) => {
    const plot = plotOf();
    const last = plot ? plot.data[0].length - 1 : 0;
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], Home: [-last, 0], End: [last, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.target !== host || !plot || !(event.key in steps)) return;
    event.preventDefault();
    const [across, down] = steps[event.key];
    size = Math.max(0, Math.min(last, size + across));
    metric = Math.max(0, Math.min(chart.metrics.length - 1, metric + down));
    const figure = plot.data[metric + 1][size];
    const at = plot.data[0][size];
    plot.setCursor({ left: plot.valToPos(at, "x"), top: figure === null ? -10 : plot.valToPos(figure, "y") });
    const { name, exponent } = chart.metrics[metric];
    const line = exponent === null ? "" : `, fit ${show(fitted(chart.metrics[metric], at))}`;
    said.textContent = `${parameter} ${at.toLocaleString("en")}: ${name}: ${figure === null ? "not measured" : show(figure) + line}`;
  });
}

function makeScaling(figure, { parameter, charts }) {
  const chart = charts[figure.dataset.scaling];
  const host = $(".plot", figure);
  const data = medians(chart.metrics);
  const state = { focus: null };
  let plot = null;
  const draw = () => {
    plot?.destroy();
    state.focus = null;
    plot = new uPlot(scalingOptions(chart, parameter, data, host.clientWidth, state), data, host);
    reachLegend(plot, host);
  };
  readByKeys(host, () => plot, chart, parameter, $(".chart-value", figure));
  whenNear(figure, () => {
    draw();
    drawn.add(draw);
    new ResizeObserver(() => {
      if (plot.width !== host.clientWidth) plot.setSize({ width: host.clientWidth, height: SCALING_HEIGHT });
    }).observe(host);
  });
}

// Function tables, and the panel in which a profile is chosen and shown.

const SHOWN_AT_FIRST = 40;

const SINGLE = [
  ["self", (row, profile) => percent(profile.samples ? row[2] / profile.samples : 0), (row) => row[2]],
  ["function", (row) => row[0]],
  ["total", (row) => percent(row[4]), (row) => row[4]],
  ["95 % interval", (row) => `${three(100 * row[5])} to ${three(100 * row[6])} %`, (row) => row[5]],
  ["samples", (row) => whole(row[3]), (row) => row[3]],
  ["CPU", (row) => seconds(row[7]), (row) => row[7] ?? -Infinity],
];
const difference = (row, profile, side) => (row[side] === null ? "–" : weights[profile.unit](row[side]));
const signed = (share) => `${share < 0 ? "−" : "+"}${three(Math.abs(100 * share))} %`;
const DOUBLE = [
  ["function", (row) => row[0]],
  ["before", (row, profile) => difference(row, profile, 2), (row) => row[2] ?? -Infinity],
  ["after", (row, profile) => difference(row, profile, 3), (row) => row[3] ?? -Infinity],
  ["Δ", (row) => (row[2] === null ? "new" : row[3] === null ? "gone" : row[4] === null ? "–" : signed(row[4])), (row) => row[4] ?? -Infinity],
  ["remark", (row) => (row[5] ? "" : "within sampling error")],
];

const often = (repeated) => (repeated === 1 ? "" : ` and ${three(repeated)} times the triggers`);

function functionTable(profile, rows, find) {
  const columns = profile.differences ? DOUBLE : SINGLE;
  const head = element("tr", {}, ...columns.map(([name, , value]) => element("th", { scope: "col", className: value ? "n" : "", textContent: name })));
  const lines = rows.map((row) => {
    const cells = columns.map(([name, text, value]) => {
      if (name === "remark") return element("td", { className: "muted", textContent: text(row) });
      if (value) {
        const cell = element("td", { className: "n", textContent: text(row, profile) });
        cell.dataset.value = value(row) === -Infinity ? "" : value(row);
        return cell;
      }
      const button = element("button", { type: "button", className: "find", textContent: row[0], title: `${row[1]}: show in the flame graph` });
      button.addEventListener("click", () => find(row[0]));
      return element("td", {}, button);
    });
    return element("tr", {}, ...cells);
  });
  const table = element("table", { className: "sortable" }, element("thead", {}, head), element("tbody", {}, ...lines));
  makeSortable(table);
  return table;
}

function makeProfiles(panel, profiles) {
  const choice = $(".profile-choice", panel);
  const search = $(".flame-search", panel);
  const filter = $(".function-filter", panel);
  const widths = $(".flame-width", panel);
  const all = $(".functions-all", panel);
  const fold = $(".fold-framework", panel);
  let graph = null;
  let everything = false;

  choice.append(...profiles.map((profile, index) => element("option", { value: index, textContent: `${profile.phase} · ${profile.process} · ${profile.kind}` })));
  choice.value = Math.max(0, profiles.findIndex((profile) => profile.process === "operator"));
  const profile = () => profiles[Number(choice.value) || 0];

  const rowsOf = () => profile().functions ?? profile().differences;
  /** Frames of libraries are folded where the program's own are known. */
  const canFold = () => profile().process === "operator" && rowsOf().some((row) => row.at(-1)) && rowsOf().some((row) => !row.at(-1));
  const folds = () => canFold() && fold.checked;

  const find = (term) => {
    search.value = term;
    graph?.search(term);
    $(".flame-scroll", panel).scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
  };

  const showFunctions = () => {
    const rows = rowsOf();
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fitting = rows.filter((row) => words.every((word) => `${row[0]} ${row[1]}`.toLowerCase().includes(word)));
    // What is searched for is shown wherever it is.
    const own = folds() && !words.length ? fitting.filter((row) => !row.at(-1)) : fitting;
    const shown = everything ? own : own.slice(0, SHOWN_AT_FIRST);
    $(".functions", panel).replaceChildren(...(shown.length ? [functionTable(profile(), shown, find)] : []));
    $(".function-count", panel).textContent = rows.length ? `${whole(shown.length)} of ${whole(profile().rows)} functions${own.length < fitting.length ? `, ${whole(fitting.length - own.length)} of libraries folded` : ""}` : "";
    $(".function-controls", panel).hidden = !rows.length;
    all.hidden = shown.length === own.length;
    all.textContent = `Show ${whole(own.length)} functions`;
  };

  const tellFacts = () => {
    const { samples, samples_before: before, coverage, cpu_s: cpu, profiled_cpu_s: profiled, repeated, costs, problem } = profile();
    const facts = [];
    if (samples !== null) facts.push(before === undefined ? `${whole(samples)} samples` : `${whole(before ?? 0)} samples before, ${whole(samples)} after`);
    if (coverage) facts.push(`covers ${percent(coverage)} of the phase`);
    if (cpu !== null && cpu !== undefined) facts.push(`shares are of ${seconds(cpu)} CPU, measured without a profiler`);
    if (profiled) facts.push(`with it ${seconds(profiled)}${often(repeated)}`);
    for (const side of costs ?? []) {
      const withIt = side.profiled_cpu_s === null ? "" : `, ${seconds(side.profiled_cpu_s)} with it${often(side.repeated)}`;
      if (side.cpu_s !== null) facts.push(`${side.name}: ${seconds(side.cpu_s)} CPU without a profiler${withIt}`);
    }
    if (problem) facts.push(problem);
    $(".profile-facts", panel).textContent = facts.join(" · ");
    $(".profile-links", panel).replaceChildren(...profile().links.map((link) => element("a", { href: link.href, textContent: link.text })));
  };

  const showFlame = () => {
    const { flame } = profile();
    graph = null;
    $(".flame", panel).replaceChildren();
    $(".flame-scroll", panel).hidden = $(".flame-controls", panel).hidden = $(".flame-detail", panel).hidden = !flame;
    $(".flame-legend", panel).hidden = widths.hidden = !flame?.before.length;
    $(".flame-detail", panel).textContent = $(".flame-found", panel).textContent = "";
    $(".flame-note", panel).textContent = flame
      ? flame.pruned
        ? `${whole(flame.pruned)} calls below ${percent(flame.min_share)} of the profile are added up as (other).`
        : ""
      : "There is no flame graph of this profile.";
    if (!flame) return;
    graph = new FlameGraph(panel, flame, folds());
  };

  const show = () => {
    everything = false;
    fold.closest("label").hidden = !canFold();
    tellFacts();
    showFlame();
    showFunctions();
  };

  choice.addEventListener("change", show);
  fold.addEventListener("change", () => {
    showFlame();
    showFunctions();
  });
  filter.addEventListener("input", showFunctions);
  search.addEventListener("input", () => graph?.search(search.value));
  $(".flame-reset", panel).addEventListener("click", () => {
    search.value = "";
    graph?.search("");
    graph?.reset();
  });
  $("select", widths).addEventListener("change", (event) => {
    graph.which = event.target.value;
    graph.draw();
  });
  $(".flame", panel).addEventListener("keydown", (event) => graph?.key(event));
  all.addEventListener("click", () => {
    everything = true;
    showFunctions();
  });
  whenNear(panel, () => {
    show();
    drawn.add(() => graph?.draw());
    new ResizeObserver(() => {
      if (graph && Math.abs(graph.width - graph.host.clientWidth) > 2 && graph.host.clientWidth >= 320) graph.draw();
    }).observe($(".flame-scroll", panel));
  });
}

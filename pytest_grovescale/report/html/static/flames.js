// Flame graphs: drawn, searched, zoomed into, and read with the keyboard.

const CELL = 20;

const FOLDED = "(libraries)";

/** The nested tree of a flame graph from its columns; `which` gives the widths. */
function treeOf(flame, which, fold) {
  const widths = which === "before" ? flame.before : flame.values;
  const framework = new Set(fold ? flame.framework : []);
  const path = [];
  flame.depths.forEach((depth, row) => {
    const node = {
      name: framework.has(flame.frames[row]) ? FOLDED : flame.names[flame.frames[row]],
      names: [flame.names[flame.frames[row]]], // of all frames that it stands for: a search finds them folded, too
      value: widths[row],
      after: flame.values[row],
      before: flame.before.length ? flame.before[row] : null,
      children: [],
    };
    path.length = depth;
    path.at(-1)?.children.push(node);
    path.push(node);
  });
  return fold ? folded(path[0]) : path[0];
}

/** The tree with frames of libraries that call each other, or stand beside each other, as one. */
function folded(node) {
  const names = [...node.names];
  const children = node.children.map(folded).flatMap((child) => {
    if (node.name !== FOLDED || child.name !== FOLDED) return [child];
    names.push(...child.names);
    return child.children;
  });
  const libraries = children.filter((child) => child.name === FOLDED);
  if (libraries.length > 1) {
    const sum = (key) => libraries.reduce((total, { [key]: weight }) => total + weight, 0);
    const one = { ...libraries[0], value: sum("value"), after: sum("after"), before: libraries[0].before === null ? null : sum("before") };
    one.children = libraries.flatMap((child) => child.children);
    one.names = libraries.flatMap((child) => child.names);
    children.splice(0, children.length, ...children.filter((child) => child.name !== FOLDED), one);
  }
  return { ...node, names, children };
}

const depthOf = (node) => 1 + Math.max(0, ...node.children.map(depthOf));

/** One hue for each file of a Python program, and each package of a Go one. */
function hueOf(name) {
  const inside = name.match(/\(([^()]*)\)$/)?.[1] ?? name.replace(/^[^\s()[]*\//, "").replace(/[.(*].*$/, "");
  let hash = 0;
  for (const sign of inside) hash = (hash * 31 + sign.codePointAt(0)) % 997;
  return [28, 42, 14, 52, 205, 180, 150, 90, 222, 350][hash % 10];
}

function plainColour(node) {
  if (node.highlight) return colour("--found");
  if (["(other)", "(all)", FOLDED].includes(node.data.name)) return colour("--flame-other");
  return `hsl(${hueOf(node.data.name)} ${colour("--flame-tone")})`;
}

function differenceColour(node) {
  if (node.highlight) return colour("--found");
  const { after, before } = node.data;
  const largest = Math.max(after, before);
  const change = largest ? (after - before) / largest : 0;
  if (Math.abs(change) < 0.01) return colour("--same");
  const strength = Math.round(20 + 80 * Math.min(1, Math.abs(change) * 1.5));
  return `color-mix(in srgb, ${colour(change > 0 ? "--more" : "--less")} ${strength}%, ${colour("--same")})`;
}

function describe(node, flame) {
  const show = weights[flame.unit];
  const root = node.ancestors().at(-1).data;
  const { name, after, before } = node.data;
  const share = root.after ? ` (${percent(after / root.after)})` : "";
  if (before === null) return `${name}: ${show(after)}${share}`;
  const change = before ? signed(after / before - 1) : "new";
  return `${name}: before ${show(before)}, after ${show(after)} (${change})`;
}

/** Draws the flame graph of one profile into its panel, and finds and zooms in it. */
class FlameGraph {
  constructor(panel, flame, fold) {
    this.fold = fold;
    this.panel = panel;
    this.flame = flame;
    this.host = $(".flame", panel);
    this.differs = flame.before.length > 0;
    this.which = "after";
    this.draw();
  }

  draw() {
    const term = $(".flame-search", this.panel).value;
    const width = Math.max(this.host.clientWidth, 320);
    const tree = treeOf(this.flame, this.which, this.fold);
    this.host.replaceChildren();
    this.selection = d3.select(this.host);
    this.chart = flamegraph.default()
      .width(width)
      .cellHeight(CELL)
      .minFrameSize(0.6)
      .inverted(true)
      .transitionDuration(0)
      .height(depthOf(tree) * CELL)
      .sort(false)
      .setColorMapper(this.differs ? differenceColour : plainColour)
      .setLabelHandler((node) => describe(node, this.flame))
      .setSearchMatch((node, wanted) => wanted !== "" && node.data.names.some((name) => name.toLowerCase().includes(wanted.toLowerCase())))
      .setSearchHandler((found, sum, all) => this.tellFound(found, sum, all))
      .setDetailsHandler(() => {})
      .onHover((node) => this.tell(node))
      .onClick((node) => this.zoomed(node));
    this.selection.datum(tree).call(this.chart);
    this.settle(width);
    this.chart.transitionDuration(calm ? 0 : 180);
    this.root = this.selection.datum();
    this.current = this.root;
    this.width = width;
    this.dress();
    if (term) this.search(term);
  }

  /** The library fills in widths and labels over the next frames: a page that is printed now must have them now. */
  settle(width) {
    this.selection.selectAll("g.frame").each(function (node) {
      const frame = d3.select(this);
      frame.select("rect").interrupt().attr("width", (node.x1 - node.x0) * width);
      frame.select(".d3-flame-graph-label").interrupt().text(node.data.name);
    });
  }

  /** Make the frames reachable: one of them takes part in the tab order, as in any tree. */
  dress() {
    this.selection
      .selectAll("g.frame")
      .attr("role", "treeitem")
      .attr("aria-label", (node) => describe(node, this.flame))
      .attr("aria-level", (node) => node.depth + 1)
      .attr("tabindex", (node) => (node === this.current ? 0 : -1))
      .on("focus", (_, node) => {
        this.current = node;
        this.tell(node);
      });
  }

  zoomed(node) {
    this.current = node;
    this.dress();
    this.tell(node);
  }

  tell(node) {
    $(".flame-detail", this.panel).textContent = describe(node, this.flame);
  }

  tellFound(found, sum, all) {
    $(".flame-found", this.panel).textContent = `${whole(found.length)} frame${found.length === 1 ? "" : "s"}, ${percent(all ? sum / all : 0)}`;
  }

  search(term) {
    if (term) {
      this.chart.search(term);
    } else {
      this.chart.clear();
      $(".flame-found", this.panel).textContent = "";
    }
    this.dress();
  }

  zoomTo(node) {
    this.chart.zoomTo(node);
    this.focus(node);
  }

  reset() {
    this.chart.resetZoom();
    this.focus(this.root);
  }

  focus(node) {
    this.current = node;
    this.dress();
    this.selection.selectAll("g.frame").filter((other) => other === node).node()?.focus();
  }

  key(event) {
    const node = this.current;
    const visible = (other) => this.selection.selectAll("g.frame").filter((shown) => shown === other && other.value > 0).size() > 0;
    const beside = (step) => {
      const siblings = node.parent?.children ?? [node];
      for (let at = siblings.indexOf(node) + step; siblings[at]; at += step) if (visible(siblings[at])) return siblings[at];
      return null;
    };
    const moves = {
      ArrowDown: () => node.children?.find(visible) ?? null,
      ArrowUp: () => node.parent,
      ArrowRight: () => beside(1),
      ArrowLeft: () => beside(-1),
      Home: () => this.root,
    };
    if (event.key in moves) {
      const to = moves[event.key]();
      if (to) this.focus(to);
    } else if (event.key === "Enter" || event.key === " ") {
      this.zoomTo(node);
    } else if (event.key === "Escape") {
      this.reset();
    } else {
      return;
    }
    event.preventDefault();
  }
}

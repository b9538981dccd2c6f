// Tables that are sorted by a click on a heading, and filtered.

function valueOf(row, column) {
  const cell = row.cells[column];
  if (!cell) return "";
  if (!("value" in cell.dataset)) return cell.textContent.trim();
  return cell.dataset.value === "" ? -Infinity : Number(cell.dataset.value);
}

function compare(a, b) {
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}

function makeSortable(table) {
  $$("thead th", table).forEach((heading, column) => {
    if (!heading.textContent.trim()) return;
    const button = element("button", { type: "button", className: "sort" });
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") === "ascending" || (heading.classList.contains("n") && !heading.hasAttribute("aria-sort"));
      $$("thead th", table).forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => [valueOf(row, column), row]);
      rows.sort((a, b) => (down ? compare(b[0], a[0]) : compare(a[0], b[0])));
      body.append(...rows.map(([, row]) => row));
    });
  });
}

function makeFilterable(table) {
  const section = table.closest("section");
  const filters = $$(".filter", section);
  const shown = $(".filter-count", section);
  const apply = () => {
    let kept = 0;
    for (const row of table.tBodies[0].rows) {
      const fits = filters.every((filter) => {
        const wanted = filter.value.toLowerCase();
        if ("column" in filter.dataset) return !wanted || row.cells[filter.dataset.column].textContent.toLowerCase() === wanted;
        const text = row.textContent.toLowerCase();
        return wanted.split(/\s+/).every((word) => text.includes(word));
      });
      row.hidden = !fits;
      kept += fits;
    }
    shown.textContent = filters.some((filter) => filter.value) ? `${whole(kept)} of ${whole(table.tBodies[0].rows.length)} rows` : "";
  };
  filters.forEach((filter) => filter.addEventListener("input", apply));
}

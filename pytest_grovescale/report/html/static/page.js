// Finds the parts of this page and brings them to life.

showTheme(remembered() ?? (systemDark.matches ? "dark" : "light"));
$$("table.sortable").forEach(makeSortable);
$$("table.filterable").forEach(makeFilterable);
$$("article[data-test]").forEach((article) => {
  const data = JSON.parse($(`#data-${article.dataset.test}`).textContent);
  if (data.timeline) $$(".chart", article).forEach((figure) => makeChart(figure, data.timeline, `sync-${article.dataset.test}`));
  $$(".scaling", article).forEach((figure) => makeScaling(figure, data.scaling));
  $$(".profiles", article).forEach((panel) => makeProfiles(panel, data.profiles));
});

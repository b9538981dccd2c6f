// Finds the parts of this page and brings them to life.

showTheme(remembered() ?? (systemDark.matches ? "dark" : "light"));
$$("table.sortable").forEach(makeSortable);
$$("table.filterable").forEach(makeFilterable);
$$("article[data-test]").forEach((article) => {
  const data = JSON.parse($(`#data-${article.dataset.test}`).textContent);
  for (const [name, place] of Object.entries(data.colours ?? {})) processColours.set(name, place);
  if (data.timeline) $$(".chart", article).forEach((figure) => makeChart(figure, data.timeline, `sync-${article.dataset.test}`));
  $$(".scaling", article).forEach((figure) => makeScaling(figure, data.scaling));
  $$(".profiles", article).forEach((panel) => makeProfiles(panel, data.profiles));
});
$$(".command").forEach((box) => {
  const button = $(".copy", box);
  button.addEventListener("click", async () => {
    const text = $("code", box).textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // A browser may refuse: then the text is selected, to be copied with the keyboard.
      getSelection().selectAllChildren($("code", box));
      button.textContent = "Selected";
    }
  });
});

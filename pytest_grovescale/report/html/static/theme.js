// Light and dark: the system's choice, or the reader's.

const themeButton = $("#theme");
const systemDark = matchMedia("(prefers-color-scheme: dark)");

function remembered() {
  try {
    return localStorage.getItem("grovescale-theme");
  } catch {
    return null; // a browser may refuse to store anything for files
  }
}

function showTheme(theme) {
  document.documentElement.dataset.theme = theme;
  themeButton.textContent = theme === "dark" ? "Light" : "Dark";
  themeButton.setAttribute("aria-label", theme === "dark" ? "Use light colours" : "Use dark colours");
  for (const draw of drawn) draw();
}

themeButton.addEventListener("click", () => {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  showTheme(theme);
  try {
    localStorage.setItem("grovescale-theme", theme);
  } catch {
    // as above: the choice holds for this page only
  }
});
systemDark.addEventListener("change", () => {
  if (!remembered()) showTheme(systemDark.matches ? "dark" : "light");
});

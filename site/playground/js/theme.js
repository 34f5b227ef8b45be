// Light or dark, before the first paint: a module would come after it, and the page would flash. The choice is kept where the browser
// lets a page keep something.
(() => {
  const root = document.documentElement;
  const kept = () => {
    try {
      return localStorage.getItem("unskew-theme");
    } catch {
      return null;
    }
  };
  const show = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  show(kept());
  document.addEventListener("DOMContentLoaded", () => {
    const radios = document.querySelectorAll("#theme input");
    for (const radio of radios) {
      radio.checked = radio.value === (root.dataset.theme ?? "auto");
      radio.addEventListener("change", () => {
        show(radio.value);
        document.dispatchEvent(new Event("themechange"));
        try {
          localStorage.setItem("unskew-theme", radio.value);
        } catch {
          // The choice then holds until the page is closed.
        }
      });
    }
  });
})();

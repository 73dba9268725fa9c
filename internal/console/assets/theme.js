// theme.js sets the theme before the browser draws the page, so that no page flashes in the wrong
// colours. It is the only script that runs before the page is complete.
"use strict";

(() => {
  const root = document.documentElement;
  // A browser may refuse to store anything.
  const kept = {
    get() { try { return localStorage.getItem("fanfare.theme") ?? ""; } catch { return ""; } },
    set(theme) { try { localStorage.setItem("fanfare.theme", theme); } catch { /* the theme lasts as long as the page */ } },
  };
  const show = theme => {
    root.dataset.theme = theme;
    root.dispatchEvent(new Event("theme"));
  };
  show(kept.get());
  addEventListener("storage", e => { if (e.key === "fanfare.theme") show(e.newValue ?? ""); });
  document.addEventListener("DOMContentLoaded", () => {
    const choice = document.getElementById("theme");
    choice.value = root.dataset.theme;
    choice.addEventListener("change", () => { kept.set(choice.value); show(choice.value); });
    root.addEventListener("theme", () => { choice.value = root.dataset.theme; });
  });
})();

// theme.js sets the theme before the browser draws the page. The console keeps the theme under the same name.
"use strict";

(() => {
  const root = document.documentElement, name = "fanfare.theme";
  const kept = {
    get() { try { return localStorage.getItem(name) ?? ""; } catch { return ""; } },
    set(theme) { try { localStorage.setItem(name, theme); } catch { /* the theme lasts as long as the page */ } },
  };
  root.dataset.theme = kept.get();
  document.addEventListener("DOMContentLoaded", () => {
    const choice = document.getElementById("theme");
    choice.value = root.dataset.theme;
    choice.addEventListener("change", () => { root.dataset.theme = choice.value; kept.set(choice.value); });
    addEventListener("storage", e => { if (e.key === name) choice.value = root.dataset.theme = e.newValue ?? ""; });
  });
})();

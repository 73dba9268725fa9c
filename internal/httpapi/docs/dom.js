// dom.js makes elements, and keeps choices in the browser.
export const el = (tag, props, ...children) => {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name in e) e[name] = value;
    else e.setAttribute(name, value);
  }
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
};

// base is the path below which the page and the API are, "" for the root.
export const base = new URL("..", import.meta.url).pathname.slice(0, -1);

export const find = id => document.getElementById(id);

// A browser may refuse to store anything: then a choice lasts as long as the page.
const choices = {};
export const kept = name => { try { return localStorage.getItem(name) ?? choices[name]; } catch { return choices[name]; } };
export const keep = (name, value) => { choices[name] = value; try { localStorage.setItem(name, value); } catch { /* see above */ } };

// words.js writes numbers, times and lists. The words of the pages are English. So the formats are
// English, too, for the country that the reader's browser names.

const lang = document.documentElement.lang;
export const locale = navigator.languages.find(l => l === lang || l.startsWith(lang + "-")) ?? lang;

const numbers = new Intl.NumberFormat(locale);
const relative = new Intl.RelativeTimeFormat(locale, { numeric: "auto", style: "narrow" });
const day = new Intl.DateTimeFormat(locale, { dateStyle: "medium" });
const moment = new Intl.DateTimeFormat(locale, { dateStyle: "full", timeStyle: "long" });
const all = new Intl.ListFormat(locale);

export const number = n => numbers.format(n);
export const form = (n, one) => n === 1 ? one : one + "s";
export const some = (n, one) => number(n) + " " + form(n, one);

const units = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];

// bytes writes a number of bytes.
export function bytes(n) {
  const [size, unit] = units.find(([size]) => n >= size) ?? [1, "B"];
  return number(Math.round(n / size * 10) / 10) + " " + unit;
}

// exact returns a time to the second, with its time zone.
export const exact = time => moment.format(new Date(time));

// ago returns the distance of a past time from now, and the date if that is more than a month. The
// reader's clock may be slow, so a time is never in the future.
export function ago(time) {
  const seconds = Math.min(0, (new Date(time) - Date.now()) / 1000);
  for (const [size, unit] of [[86400, "day"], [3600, "hour"], [60, "minute"]]) {
    if (-seconds >= 30 * 86400) return day.format(new Date(time));
    if (-seconds >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return relative.format(-seconds < 10 ? 0 : Math.trunc(seconds), "second");
}

// listed joins nodes with the words between the items of a list.
export function listed(nodes) {
  let next = 0;
  return all.formatToParts(nodes.map(() => "x")).map(part => part.type === "element" ? nodes[next++] : part.value);
}

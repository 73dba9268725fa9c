// metrics.js computes rates and quantiles from the metrics of a process (text format of Prometheus).

// metrics parses the text format of Prometheus. The result is {name: [{labels, value}]}.
export function metrics(text) {
  const all = {};
  for (const line of text.split("\n")) {
    const m = line.match(/^((?:fanfare|go|process)_\w+)(?:\{(.*)\})? (\S+)$/);
    if (!m) continue;
    const labels = Object.fromEntries([...(m[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(l => [l[1], l[2]]));
    (all[m[1]] ??= []).push({ labels, value: Number(m[3]) });
  }
  return all;
}

export const sum = (all, name, where = () => true) => (all[name] ?? []).filter(m => where(m.labels)).reduce((n, m) => n + m.value, 0);
export const rate = (name, where) => (now, before, seconds) => Math.max(0, sum(now, name, where) - sum(before, name, where)) / seconds;

// quantile returns a function that computes a quantile of the observations between two looks, in
// milliseconds.
export const quantile = (q, name, where = () => true) => (now, before) => {
  const of = all => (all[name + "_bucket"] ?? []).filter(m => where(m.labels));
  const was = new Map(of(before).map(m => [m.labels.le, m.value]));
  const buckets = of(now).map(m => ({ le: Number(m.labels.le.replace("+Inf", "Infinity")), n: m.value - (was.get(m.labels.le) ?? 0) })).sort((a, b) => a.le - b.le);
  const total = buckets.at(-1)?.n ?? 0;
  if (total <= 0) return null;
  const i = buckets.findIndex(b => b.n >= q * total), low = buckets[i - 1] ?? { le: 0, n: 0 };
  if (buckets[i].le === Infinity) return low.le * 1000;
  return (low.le + (buckets[i].le - low.le) * (q * total - low.n) / (buckets[i].n - low.n)) * 1000;
};

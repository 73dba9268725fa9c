// operator.js draws the charts of the operators' page. The charts show the metrics of the process
// that serves the page, and none of their texts comes from a user.
"use strict";

const LOOK = 2000, KEPT = 150; // the milliseconds between two looks, and the number of looks in a chart

// metrics parses the text format of Prometheus. The result is {name: [{labels, value}]}.
function metrics(text) {
  const all = {};
  for (const line of text.split("\n")) {
    const m = line.match(/^(fanfare_\w+)(?:\{(.*)\})? (\S+)$/);
    if (!m) continue;
    const labels = Object.fromEntries([...(m[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(l => [l[1], l[2]]));
    (all[m[1]] ??= []).push({ labels, value: Number(m[3]) });
  }
  return all;
}

const sum = (all, name, where = () => true) => (all[name] ?? []).filter(m => where(m.labels)).reduce((n, m) => n + m.value, 0);
const rate = (name, where) => (now, before, seconds) => Math.max(0, sum(now, name, where) - sum(before, name, where)) / seconds;

// quantile returns a function that computes a quantile of the observations between two looks, in
// milliseconds.
const quantile = (q, name, where = () => true) => (now, before) => {
  const of = all => (all[name + "_bucket"] ?? []).filter(m => where(m.labels));
  const was = new Map(of(before).map(m => [m.labels.le, m.value]));
  const buckets = of(now).map(m => ({ le: Number(m.labels.le.replace("+Inf", "Infinity")), n: m.value - (was.get(m.labels.le) ?? 0) })).sort((a, b) => a.le - b.le);
  const total = buckets.at(-1)?.n ?? 0;
  if (total <= 0) return null;
  const i = buckets.findIndex(b => b.n >= q * total), low = buckets[i - 1] ?? { le: 0, n: 0 };
  if (buckets[i].le === Infinity) return low.le * 1000;
  return (low.le + (buckets[i].le - low.le) * (q * total - low.n) / (buckets[i].n - low.n)) * 1000;
};

const topics = () => [...document.querySelectorAll("[data-topic]")].map(e => e.dataset.topic);
const byTopic = value => topics().map(topic => [topic, value(l => l.topic === topic)]);
const charts = {
  rates: () => [["posts", rate("fanfare_posts_total")], ["likes", rate("fanfare_likes_total")]],
  work: () => [["deliveries", rate("fanfare_deliveries_total")], ["requests", rate("fanfare_http_requests_total")]],
  lag: () => [["p99", quantile(.99, "fanfare_post_visible_seconds")], ["p50", quantile(.5, "fanfare_post_visible_seconds")]],
  depth: () => byTopic(of => all => sum(all, "fanfare_queue_depth", l => of(l) && l.state === "ready")),
  age: () => byTopic(of => quantile(.99, "fanfare_message_age_seconds", of)),
};
const tiles = {
  posts: rate("fanfare_posts_total"), deliveries: rate("fanfare_deliveries_total"), likes: rate("fanfare_likes_total"),
  p99: quantile(.99, "fanfare_post_visible_seconds"),
  waiting: all => sum(all, "fanfare_queue_depth", l => l.state === "ready"),
  flying: all => sum(all, "fanfare_queue_depth", l => l.state === "in_flight"),
  delayed: all => sum(all, "fanfare_queue_depth", l => l.state === "delayed"),
  dead: all => sum(all, "fanfare_queue_depth", l => l.state === "dead"),
};

const short = n => n === null ? "–" : n < 9.95 ? String(Math.round(n * 10) / 10) : Math.round(n).toLocaleString("en");

// unit returns the unit for a time in milliseconds, and its size.
const unit = ms => ms >= 59950 ? [60000, "min"] : ms >= 999.5 ? [1000, "s"] : [1, "ms"];
function duration(ms) {
  if (ms === null) return "–";
  const [size, name] = unit(ms);
  return short(ms / size) + " " + name;
}

// A measure has the format of a figure's values and the ticks of its axis.
const steps = [1, 1e3, 1e6, 1e9].flatMap(size => [1, 2, 5, 10, 20, 50, 100, 200, 500].map(n => n * size));
const measures = {
  number: { text: short, incrs: [.2, .5, ...steps], ticks: ticks => ticks.map(short) },
  count: { text: short, incrs: steps, ticks: ticks => ticks.map(short) },
  time: {
    text: duration,
    incrs: [.1, .2, .5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5, 216e5, ...steps.map(days => days * 864e5)],
    ticks: ticks => {
      const [size, name] = unit(ticks.at(-1) ?? 0);
      return ticks.map(ms => ms === 0 ? "0" : Math.round(ms / size * 100) / 100 + " " + name);
    },
  },
};
const measureOf = e => measures[e.dataset.measure ?? "number"];

// wide returns the width at which the longest label of an axis is not cut off.
function wide(u, labels, i, cycle) {
  const axis = u.axes[i];
  if (cycle > 1) return axis._size;
  u.ctx.font = axis.font[0];
  const longest = Math.max(0, ...(labels ?? []).map(label => u.ctx.measureText(label).width));
  return Math.ceil(Math.max(36, longest / devicePixelRatio + axis.gap + 8));
}

// plot draws a figure, and returns a function that adds the values of a look.
function plot(figure, series) {
  const box = figure.querySelector(".plot"), keys = figure.querySelector(".keys");
  const data = [[], ...series.map(() => [])], measure = measureOf(figure);
  const last = series.map(([name], i) => {
    const key = document.createElement("span"), value = document.createElement("b");
    key.className = "key-" + (i + 1);
    key.append(name + " ", value);
    keys.append(key);
    return value;
  });
  let u;
  const build = () => {
    if (!box.clientWidth) return; // the figure is not visible
    u?.destroy();
    const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
    const axis = { stroke: colour("soft"), font: "12px system-ui, sans-serif", grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
    u = new uPlot({
      width: box.clientWidth, height: 170, legend: { show: false }, cursor: { y: false },
      padding: [8, 30, 0, 0], // half of the last label is to the right of its tick
      scales: {
        x: { range: (_, min, max) => [Math.min(min, max - 60), max] }, // the axis shows at least a minute
        y: { range: (_, min, max) => [0, Math.max(1, max * 1.1)] },
      },
      axes: [
        { ...axis, grid: { show: false }, space: 70, size: 28, incrs: [5, 10, 15, 30, 60, 120, 300], values: "{HH}:{mm}:{ss}" },
        { ...axis, size: wide, incrs: measure.incrs, values: (_, ticks) => measure.ticks(ticks) },
      ],
      series: [{}, ...series.map((_, i) => ({ stroke: colour("s" + (i + 1)), width: 2, spanGaps: true, points: { show: false } }))],
    }, data, box);
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build);
  new ResizeObserver(() => u ? u.setSize({ width: box.clientWidth, height: 170 }) : build()).observe(box);
  return (time, values) => {
    data[0].push(time);
    values.forEach((v, i) => { data[i + 1].push(v); last[i].textContent = measure.text(v ?? data[i + 1].findLast(v => v !== null) ?? null); });
    for (const column of data) if (column.length > KEPT) column.shift();
    u?.setData(data);
  };
}

function operate() {
  const live = document.getElementById("live"), figures = [];
  for (const figure of document.querySelectorAll("[data-chart]")) {
    const series = charts[figure.dataset.chart]();
    figures.push({ figure, series, add: plot(figure, series) });
  }
  let before, then;
  const look = async () => {
    try {
      const answer = await fetch("/metrics");
      if (!answer.ok) throw new Error(answer.statusText);
      const now = metrics(await answer.text()), time = Date.now() / 1000;
      if (before) {
        for (const { figure, series, add } of figures) add(time, series.map(([, value]) => value(now, before, time - then)));
        for (const e of document.querySelectorAll("[data-tile]")) e.textContent = measureOf(e).text(tiles[e.dataset.tile](now, before, time - then));
        document.querySelector("[data-chart=age]").hidden = !now.fanfare_message_age_seconds_bucket;
        document.querySelector("[data-tile=dead]").classList.toggle("bad", tiles.dead(now) > 0);
      }
      [before, then] = [now, time];
      live.textContent = "live";
      live.classList.add("on");
    } catch {
      live.textContent = "no answer";
      live.classList.remove("on");
    }
  };
  look(); // a rate needs two looks
  setInterval(look, LOOK);
}

operate();

// charts.js draws the values of a measure over time, and writes them.
import { bytes, number, some } from "./words.js";

const KEPT = 3600; // the seconds in a chart

const short = n => n === null ? "–" : n < 9.95 ? String(Math.round(n * 10) / 10) : number(Math.round(n));

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
  bytes: { text: n => n === null ? "–" : bytes(n), incrs: steps, ticks: ticks => ticks.map(bytes) },
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
export const measureOf = e => measures[e.dataset.measure ?? "number"];

// wide returns the width at which the longest label of an axis is not cut off.
function wide(u, labels, i, cycle) {
  const axis = u.axes[i];
  if (cycle > 1) return axis._size;
  u.ctx.font = axis.font[0];
  const longest = Math.max(0, ...(labels ?? []).map(label => u.ctx.measureText(label).width));
  return Math.ceil(Math.max(36, longest / devicePixelRatio + axis.gap + 8));
}

// plot draws a figure, and returns a function that adds the values of a look.
export function plot(figure, series) {
  const box = figure.querySelector(".plot"), keys = figure.querySelector(".keys");
  const data = [[], ...series.map(() => [])], measure = measureOf(figure);
  box.role = "img";
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
    // A canvas knows no light-dark(), so an element computes the colour.
    const colour = name => {
      box.style.color = `var(--${name})`;
      const computed = getComputedStyle(box).color;
      box.style.color = "";
      return computed;
    };
    const axis = { stroke: colour("soft"), font: "12px system-ui, sans-serif", grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
    u = new uPlot({
      width: box.clientWidth, height: 170, legend: { show: false }, cursor: { y: false },
      padding: [8, 30, 0, 0], // half of the last label is to the right of its tick
      scales: {
        x: { range: (_, min, max) => [Math.min(min, max - 60), max] }, // the axis shows at least a minute
        y: { range: (_, min, max) => [0, Math.max(1, max * 1.1)] },
      },
      axes: [
        { ...axis, grid: { show: false }, space: 70, size: 28, incrs: [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800], values: "{HH}:{mm}:{ss}" },
        { ...axis, size: wide, incrs: measure.incrs, values: (_, ticks) => measure.ticks(ticks) },
      ],
      series: [{}, ...series.map((_, i) => ({ stroke: colour("s" + (i + 1)), width: 2, spanGaps: true, points: { show: false } }))],
    }, data, box);
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build);
  document.documentElement.addEventListener("theme", build);
  new ResizeObserver(() => u ? u.setSize({ width: box.clientWidth, height: 170 }) : build()).observe(box);
  return (time, values, more = false) => {
    data[0].push(time);
    values.forEach((v, i) => { data[i + 1].push(v); last[i].textContent = measure.text(v ?? data[i + 1].findLast(v => v !== null) ?? null); });
    while (data[0][0] < time - KEPT) for (const column of data) column.shift();
    if (more) return;
    box.dataset.since = data[0][0];
    box.ariaLabel = `${figure.querySelector("h2").textContent}, ${some(Math.ceil((time - data[0][0]) / 60), "minute")}`;
    u?.setData(data);
  };
}

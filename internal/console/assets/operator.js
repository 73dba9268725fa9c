// operator.js begins the operators' page: charts and numbers of the process that serves the page, and the
// dead letters of its queues.
import { draw, markup, setTime, toast } from "./draw.js";
import { number, some } from "./words.js";
import { metrics, quantile, rate, sum } from "./metrics.js";
import { measureOf, plot } from "./charts.js";
import { showPair } from "./pair.js";
import { cut } from "./text.js";
import { base } from "./base.js";
import { tell, wire } from "./wires.js";

const LOOK = 2000; // the milliseconds between two looks

const topics = () => [...document.querySelectorAll("[data-topic]")].map(e => e.dataset.topic);
const byTopic = value => topics().map(topic => [topic, value(l => l.topic === topic)]);
const charts = {
  rates: () => [["posts", rate("fanfare_posts_total")], ["likes", rate("fanfare_likes_total")]],
  requests: () => [["requests", rate("fanfare_http_requests_total")]],
  deliveries: () => [["deliveries", rate("fanfare_deliveries_total")]],
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
  memory: all => sum(all, all.process_resident_memory_bytes ? "process_resident_memory_bytes" : "go_memstats_sys_bytes"),
  heap: all => sum(all, "go_memstats_heap_inuse_bytes"),
  archive: all => 1000 * sum(all, "fanfare_archive_lag_seconds"), unarchived: all => sum(all, "fanfare_archive_lag_bytes"),
  base: all => 1000 * sum(all, "fanfare_archive_base_age_seconds"),
};

// --- dead letters

// payload returns the payload of a letter, with a line for each field if it is JSON.
function payload(letter) {
  if (letter.payload === undefined) return "base64: " + (letter.payload_base64 ?? "");
  try {
    return JSON.stringify(JSON.parse(letter.payload), null, 2);
  } catch {
    return letter.payload;
  }
}

const reason = () => document.querySelector("#filter input").value;

const views = {
  letters(letters, from) {
    const { topic } = from.dataset, part = reason();
    const rows = letters.map(l => markup("letter", { ...l, payload: payload(l), times: number(l.receives) + " ×", chosen: JSON.stringify({ ids: [l.id] }) }));
    const words = part ? `all dead letters of ${topic} with "${part}" in the reason` : `all dead letters of ${topic}`;
    if (letters.length > 1) rows.push(markup("letters", { topic, words, chosen: JSON.stringify({ all: true, ...(part && { reason: part }) }) }));
    return rows.join("");
  },
};

// The role of a daemon on AWS may not be allowed to read dead letters. Then the table shows the problem.
const refused = {
  letters(problem, from) {
    from.replaceChildren(draw("unread", { topic: from.dataset.topic, words: `cannot be read: ${problem.title.trim()}` }));
  },
};

const done = {
  redriven(_, ctx) {
    const { sent, refused } = JSON.parse(ctx.text);
    toast(number(sent) + " sent again" + (refused ? ", " + number(refused) + " too old" : ""));
    tell("letters");
  },
  dropped(_, ctx) {
    toast(number(JSON.parse(ctx.text).dropped) + " dropped");
    tell("letters");
  },
};

// --- one user, one post

const progress = d => `${d.state}: ${number(d.delivered ?? 0)} of ${some(d.planned ?? 0, "home")}, ${number(d.chunks_done ?? 0)} of ${some(d.chunks_total ?? 0, "chunk")}`
  + (d.skipped ? `, ${number(d.skipped)} away` : "") + (d.attempts > 1 ? `, ${number(d.attempts)} attempts` : "") + (d.reason ? `: ${d.reason}` : "");

async function ask(path, view) {
  const answer = await fetch(base + path), text = await answer.text();
  return answer.ok ? view(JSON.parse(text)) : [{ text: text.trim() }];
}

// entries returns the explanations of posts, each with a yes or a no.
const entries = all => all.map(e => ({ ...e, sign: e.in_home ? "in home" : "not in home", kind: e.in_home ? "yes" : "no", post_text: cut(e.post_text ?? "", 200) }));

// delivered returns the delivery of a post, with the text of the post.
const delivered = ({ view, delivery: d }) => [{
  text: progress(d), sign: view ? "there" : "gone", kind: view ? "yes" : "no",
  post_text: cut(view?.post.text ?? "", 200), post_id: view?.post.id, author_id: view?.post.author_id,
}];

async function explain(e) {
  e.preventDefault();
  const { user, post } = Object.fromEntries([...new FormData(e.target)].map(([name, value]) => [name, value.trim()]));
  const list = document.getElementById("answer");
  let found = [{ text: "Give the id of a user or of a post." }];
  try {
    if (user) found = await ask(`/admin/explain/${encodeURIComponent(user)}?post=${encodeURIComponent(post)}`, entries);
    else if (post) found = await ask("/admin/posts/" + encodeURIComponent(post), delivered);
    if (found.length === 0) found = [{ text: "This user follows nobody who has posted." }];
  } catch {
    found = [{ text: "Fanfare does not answer." }];
  }
  list.replaceChildren(...found.map(x => draw("explained", x)));
}

// --- the process

// canary returns the state of the canary from its metrics, which a process without a canary does not have.
function canary(now, before) {
  const steps = now.fanfare_canary_seconds_count;
  if (!steps) return "off";
  const failed = now.fanfare_canary_failures_total?.filter(m => m.value > 0).map(m => `${m.labels.step} failed ${number(m.value)} ×`) ?? [];
  const failing = before && sum(now, "fanfare_canary_failures_total") > sum(before, "fanfare_canary_failures_total");
  return (failing ? "fails" : sum(now, "fanfare_canary_seconds_count") ? "passes" : "starts") + (failed.length ? ", " + failed.join(", ") : "");
}

async function health() {
  const { status, failing = [], warnings = [] } = await (await fetch(base + "/readyz")).json();
  return [status, ...failing, ...warnings.map(w => "warning: " + w)].join(", ");
}

function operate() {
  const live = document.getElementById("live"), figures = [];
  for (const figure of document.querySelectorAll("[data-chart]")) {
    const series = charts[figure.dataset.chart]();
    figures.push({ figure, series, add: plot(figure, series) });
  }
  // past draws the hour that the process has kept. A process that shares its queues with other processes keeps none.
  const past = async () => {
    if (document.body.dataset.alone === undefined) return;
    const answer = await fetch(base + "/admin/history");
    if (!answer.ok) return;
    const { series: names, looks } = await answer.json();
    const ahead = Math.max(0, (looks.at(-1)?.at ?? 0) - Date.now()); // of this machine's clock
    const kept = looks.map(({ at, values }) => [metrics(values.map((v, i) => v === null ? "" : names[i] + " " + v).join("\n")), (at - ahead) / 1000]);
    for (const { series, add } of figures) {
      kept.slice(1).forEach(([now, time], i) => add(time, series.map(([, value]) => value(now, kept[i][0], time - kept[i][1])), i < kept.length - 2));
    }
  };
  let before, then;
  const look = async () => {
    try {
      const answer = await fetch(base + "/metrics");
      if (!answer.ok) throw new Error(answer.statusText);
      const now = metrics(await answer.text()), time = Date.now() / 1000;
      if (before) {
        for (const { figure, series, add } of figures) add(time, series.map(([, value]) => value(now, before, time - then)));
        for (const e of document.querySelectorAll("[data-tile]")) e.textContent = measureOf(e).text(tiles[e.dataset.tile](now, before, time - then));
        for (const e of document.querySelectorAll("time")) setTime(e, e.dateTime);
        document.querySelector("[data-chart=age]").hidden = !now.fanfare_message_age_seconds_bucket;
        document.querySelector("[data-tile=dead]").classList.toggle("bad", tiles.dead(now) > 0);
        for (const e of document.querySelectorAll("[data-if-metric]")) e.hidden = !now[e.dataset.ifMetric];
        document.querySelector("[data-tile=archive]")?.classList.toggle("bad", sum(now, "fanfare_archive_fenced") > 0);
        if (now.fanfare_pair_primary) await showPair();
      }
      document.getElementById("canary").textContent = canary(now, before);
      document.getElementById("health").textContent = await health();
      [before, then] = [now, time];
      live.textContent = "live";
      live.classList.add("on");
    } catch {
      live.textContent = "no answer";
      live.classList.remove("on");
    }
  };
  past().catch(() => {}).then(look); // a rate needs two looks
  setInterval(look, LOOK);
}

wire({ views, refused, done });
document.getElementById("ask").addEventListener("submit", explain);
document.querySelector("#filter input").addEventListener("input", () => tell("letters"));
operate();

// operator.js begins the operators' page: charts and numbers of the process that serves the page, and the
// dead letters of its queues.
import { markup, setTime, toast } from "./draw.js";
import { number } from "./words.js";
import { metrics, quantile, rate, sum } from "./metrics.js";
import { measureOf, plot } from "./charts.js";
import { tell, wire } from "./wires.js";

const LOOK = 2000; // the milliseconds between two looks

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

const views = {
  letters(letters, from) {
    const topic = from.dataset.topic;
    const rows = letters.map(l => markup("letter", { ...l, payload: l.payload ?? "base64: " + (l.payload_base64 ?? ""), times: number(l.receives) + " ×", one: JSON.stringify({ ids: [l.id] }) }));
    if (letters.length > 1) rows.push(markup("letters", { topic, words: "all dead letters of this topic", all: JSON.stringify({ all: true }) }));
    return rows.join("");
  },
};

const done = {
  redriven(_, ctx) {
    const { sent, refused } = JSON.parse(ctx.text);
    toast(number(sent) + " sent again" + (refused ? ", " + number(refused) + " too old" : ""));
    tell("redriven");
  },
};

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
  for (const e of document.querySelectorAll("time")) setTime(e, e.dateTime);
  look(); // a rate needs two looks
  setInterval(look, LOOK);
}

wire({ views, done });
operate();

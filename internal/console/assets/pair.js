// pair.js shows the state of a pair of machines, which a process has if it is one of them.
import { base } from "./base.js";
import { bytes, number } from "./words.js";

const seconds = ms => number(Math.round(ms / 100) / 10) + " s";

// facts are the texts of a status, by the names in data-fact.
const facts = s => ({
  mode: s.mode, role: s.role, term: number(s.term), peer: `${s.peer}, ${s.connected ? "connected" : "away"}`,
  lag: bytes(s.lag_bytes) + (s.seed_bytes > s.seeded_bytes ? `, ${bytes(s.seeded_bytes)} of ${bytes(s.seed_bytes)} copied` : ""),
  ack: s.connected ? number(s.ack_ms) + " ms" : "–",
  register: s.register ? `${s.register.mode}, term ${number(s.register.term)}, read ${seconds(s.register.age_ms)} ago` : "none",
  reason: [s.reason, s.alone_ms > 0 && `alone for ${seconds(s.alone_ms)}`].filter(Boolean).join("; "),
});

// showPair reads the state of the pair, and shows it in the card of a page.
export async function showPair() {
  const answer = await fetch(base + "/admin/pair");
  if (!answer.ok) return; // the process has no pair, or has just ended
  const status = await answer.json(), card = document.getElementById("pair");
  for (const [name, text] of Object.entries(facts(status))) card.querySelector(`[data-fact=${name}]`).textContent = text;
  const well = status.mode === "paired" && status.connected;
  card.querySelector("[data-fact=mode]").className = "sign " + (well ? "yes" : "no");
  card.hidden = false;
}

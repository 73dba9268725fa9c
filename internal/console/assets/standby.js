// standby.js begins the page of a standby: the state of its pair, and the times of the page.
import { setTime } from "./draw.js";
import { showPair } from "./pair.js";

const LOOK = 2000; // the milliseconds between two looks

async function look() {
  await showPair().catch(() => {}); // the process may have stopped, or serve now
  for (const e of document.querySelectorAll("time")) setTime(e, e.dateTime);
}

look();
setInterval(look, LOOK);

// compose.js has the fields of the pictures in the forms of a post. Each picture is a group of fields.
import { source } from "./text.js";

const names = ["url", "alt", "width", "height"];
const inputs = group => names.map(name => group.querySelector(`[name=${name}]`));

// gather replaces the fields of pictures by the list that the API wants, whose sizes are numbers.
export function gather(form, fields) {
  const groups = [...form.querySelectorAll("[data-picture]")];
  if (groups.length === 0) return;
  for (const name of names) delete fields[name];
  fields.images = groups.map(group => inputs(group).map(input => input.value.trim())).filter(([url]) => url)
    .map(([url, alt, width, height]) => ({ url, alt, ...(width && { width: Number(width), height: Number(height) }) }));
}

// another adds the fields of one more picture.
export function another(button) {
  const last = button.previousElementSibling, next = last.cloneNode(true);
  for (const input of inputs(next)) input.value = "";
  last.after(next);
  next.querySelector("input").focus();
  button.hidden = button.parentElement.querySelectorAll("[data-picture]").length >= 10;
}

// measure fills in the size of a picture that the page may load.
function measure(url, width, height) {
  width.value = height.value = "";
  const src = source(url.value), img = new Image();
  img.addEventListener("load", () => { if (src === source(url.value)) [width.value, height.value] = [img.naturalWidth, img.naturalHeight]; });
  if (src) img.src = src;
}

// listen measures the pictures whose addresses people write.
export function listen() {
  document.addEventListener("change", ({ target }) => {
    const group = target.name === "url" && target.closest("[data-picture]");
    if (!group) return;
    const [url, , width, height] = inputs(group);
    measure(url, width, height);
  });
}

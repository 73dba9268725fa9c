// base.js has the path below which the pages and the API are, "" for the root.
export const base = new URL("..", import.meta.url).pathname.slice(0, -1);

export { Fanfare } from './client.js';
export type { Options } from './client.js';
export type { LikesChange, LiveEvent } from './live.js';
export { applied, living, renewed, reread, untilEnd } from './page.js';
export { isUnanswered, NoAnswer, Problem } from './answer.js';
export type { PageItem } from './page.js';
export type { FieldError } from './answer.js';
export type { Answer, Item, Params, Path, Schemas } from './types.js';

// These types of the calls come from the API's OpenAPI document.
import type { components, paths } from './openapi.js';

// Schemas has the types by their names in the document: Schemas['Post'].
export type Schemas = components['schemas'];

export type Method = 'get' | 'put' | 'post' | 'patch' | 'delete';

// Path is the type of the paths with the method M. The stream and the export of a user are not JSON, so no method
// returns them.
export type Path<M extends Method> = { [P in keyof paths]: paths[P] extends Record<M, { responses: infer R }> ? (R extends { 200: { content: infer C } } ? ('application/json' extends keyof C ? P : never) : P) : never }[keyof paths];

type Operation<M extends Method, P extends Path<M>> = paths[P] extends Record<M, infer O> ? O : never;

type Part<O, Name extends string> = O extends { parameters: infer A } ? (A extends Partial<Record<Name, infer T>> ? NonNullable<T> : never) : never;

type Has<T, Key> = [T] extends [never] ? false : Key extends keyof T ? true : false;

type PathPart<O> = [Part<O, 'path'>] extends [never] ? { path?: never } : { path: Part<O, 'path'> };
type QueryPart<O> = [Part<O, 'query'>] extends [never] ? { query?: never } : { query?: Part<O, 'query'> };
type BodyPart<O> = O extends { requestBody: { content: { 'application/json': infer B } } } ? { body: B } : { body?: never };
type KeyPart<O> = Has<Part<O, 'header'>, 'Idempotency-Key'> extends true ? { key?: string } : { key?: never };

// Params has the parameters of a call. key is the Idempotency-Key, and an aborted signal ends the call.
export type Params<M extends Method, P extends Path<M>> =
  PathPart<Operation<M, P>> & QueryPart<Operation<M, P>> & BodyPart<Operation<M, P>> & KeyPart<Operation<M, P>> & { signal?: AbortSignal };

// Args lets a caller omit the parameters if all of them are optional.
export type Args<M extends Method, P extends Path<M>> = {} extends Params<M, P> ? [params?: Params<M, P>] : [params: Params<M, P>];

type Content<R> = R extends { content: { 'application/json': infer B } } ? B : undefined;

// Answer is the body of a successful answer, or undefined if the answer has no body.
export type Answer<M extends Method, P extends Path<M>> =
  Operation<M, P> extends { responses: infer R } ? (R extends { 200: infer T } ? Content<T> : R extends { 201: infer T } ? Content<T> : undefined) : never;

type ItemOf<A> = A extends { items: (infer T)[] } ? T : never;

// Item is the type of an item in a list.
export type Item<P extends Path<'get'>> = ItemOf<Answer<'get', P>>;
export type UnviewedItem<P extends Path<'get'>> = ItemOf<Unviewed<P>>;

type View = Schemas['PostView'];

// Viewed is the form of an answer with expand=view, for a call whose answer has two forms.
export type Viewed<P extends Path<'get'>> = Extract<Answer<'get', P>, View | { items: View[] }>;

// Viewable is the type of the paths whose answer has another form with expand=view.
export type Viewable = { [P in Path<'get'>]: [Unviewed<P>] extends [never] ? never : [Viewed<P>] extends [never] ? never : P }[Path<'get'>];

// AsView has the parameters of a call with expand=view, and Plain those of a call without expand.
export type AsView<P extends Path<'get'>> = Params<'get', P> & { query: { expand: 'view' } };
type PlainParams<P extends Path<'get'>> = Params<'get', P> & { query?: { expand?: undefined } };
export type Plain<P extends Path<'get'>> = {} extends PlainParams<P> ? [params?: PlainParams<P>] : [params: PlainParams<P>];

// Unviewed is the other form of the answer.
export type Unviewed<P extends Path<'get'>> = Exclude<Answer<'get', P>, Viewed<P>>;

// Listed is the type of the paths with a paged list.
export type Listed = { [P in Path<'get'>]: Has<Part<Operation<'get', P>, 'query'>, 'cursor'> extends true ? P : never }[Path<'get'>];

type Bodiless<M extends Method> = { [P in Path<M>]: [Answer<M, P>] extends [undefined] ? P : never }[Path<M>];

// bodiless has the calls whose successful answer is empty. The compiler compares it with the API's document.
export const bodiless: { readonly [M in Method]: Readonly<Record<Bodiless<M>, true>> } = {
  get: {},
  put: {
    '/v1/me/blocks/{id}': true, '/v1/me/bookmarks/{id}': true, '/v1/me/following/{id}': true, '/v1/me/mutes/{id}': true,
    '/v1/posts/{id}/like': true, '/v1/posts/{id}/reactions/{kind}': true,
  },
  post: { '/v1/dev/away': true },
  patch: {},
  delete: {
    '/v1/me': true, '/v1/me/blocks/{id}': true, '/v1/me/bookmarks/{id}': true, '/v1/me/following/{id}': true, '/v1/me/markers/{name}': true,
    '/v1/me/mutes/{id}': true, '/v1/posts/{id}': true, '/v1/posts/{id}/comments/{comment}': true, '/v1/posts/{id}/like': true,
    '/v1/posts/{id}/reactions/{kind}': true, '/v1/posts/{id}/repost': true,
  },
};

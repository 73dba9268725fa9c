// The types of the calls, from the API's OpenAPI document.
import type { components, paths } from './openapi.js';

// Schemas are the types by their names in the document: Schemas['Post'].
export type Schemas = components['schemas'];

export type Method = 'get' | 'put' | 'post' | 'patch' | 'delete';

// Path is a path that has the method.
export type Path<M extends Method> = { [P in keyof paths]: paths[P] extends Record<M, object> ? P : never }[keyof paths];

type Operation<M extends Method, P extends Path<M>> = paths[P] extends Record<M, infer O> ? O : never;

type Part<O, Name extends string> = O extends { parameters: infer A } ? (A extends Partial<Record<Name, infer T>> ? NonNullable<T> : never) : never;

type Has<T, Key> = [T] extends [never] ? false : Key extends keyof T ? true : false;

type PathPart<O> = [Part<O, 'path'>] extends [never] ? { path?: never } : { path: Part<O, 'path'> };
type QueryPart<O> = [Part<O, 'query'>] extends [never] ? { query?: never } : { query?: Part<O, 'query'> };
type BodyPart<O> = O extends { requestBody: { content: { 'application/json': infer B } } } ? { body: B } : { body?: never };
type KeyPart<O> = Has<Part<O, 'header'>, 'Idempotency-Key'> extends true ? { key?: string } : { key?: never };

// Params are the parameters of a call. Its key is the Idempotency-Key, and signal ends it.
export type Params<M extends Method, P extends Path<M>> =
  PathPart<Operation<M, P>> & QueryPart<Operation<M, P>> & BodyPart<Operation<M, P>> & KeyPart<Operation<M, P>> & { signal?: AbortSignal };

// Args lets a caller leave out parameters that are all optional.
export type Args<M extends Method, P extends Path<M>> = {} extends Params<M, P> ? [params?: Params<M, P>] : [params: Params<M, P>];

type Content<R> = R extends { content: { 'application/json': infer B } } ? B : undefined;

// Answer is the body of a call's success, undefined if it has none.
export type Answer<M extends Method, P extends Path<M>> =
  Operation<M, P> extends { responses: infer R } ? (R extends { 200: infer T } ? Content<T> : R extends { 201: infer T } ? Content<T> : undefined) : never;

// Item is an item of a list.
export type Item<P extends Path<'get'>> = Answer<'get', P> extends { items: (infer T)[] } ? T : never;

// Listed is a path with a list in pages.
export type Listed = { [P in Path<'get'>]: Has<Part<Operation<'get', P>, 'query'>, 'cursor'> extends true ? P : never }[Path<'get'>];

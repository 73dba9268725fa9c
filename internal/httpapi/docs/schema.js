// schema.js turns schemas of the document into texts and examples.
export const resolve = (doc, schema) => schema && schema.$ref
  ? schema.$ref.split("/").slice(1).reduce((o, k) => o[k], doc) : schema;

// shape draws a schema as JSON with types for values. An optional name ends with "?".
export function shape(doc, schema, depth = 0) {
  if (!schema || depth > 6) return "…";
  if (schema.$ref) return shape(doc, resolve(doc, schema), depth + 1);
  if (schema.type === "object" || schema.properties) {
    const required = new Set(schema.required || []);
    const first = ([name]) => required.has(name) ? 0 : 1;
    return Object.fromEntries(Object.entries(schema.properties || {}).sort((a, b) => first(a) - first(b))
      .map(([name, s]) => [required.has(name) ? name : name + "?", shape(doc, s, depth + 1)]));
  }
  if (schema.type === "array") return [shape(doc, schema.items, depth + 1)];
  const forms = schema.oneOf || schema.anyOf;
  if (forms) return forms.map(s => shape(doc, s, depth + 1));
  return rules(schema);
}

export function rules(s) {
  const out = [[s.type].flat().join(" or ")];
  if (s.format) out.push(s.format);
  if (s.enum) out.push("one of " + s.enum.join(", "));
  if (s.minLength !== undefined || s.maxLength !== undefined) out.push((s.minLength ?? 0) + ".." + (s.maxLength ?? "") + " characters");
  if (s.minimum !== undefined || s.maximum !== undefined) out.push((s.minimum ?? "") + ".." + (s.maximum ?? ""));
  if (s.pattern) out.push(s.pattern);
  if (s.default !== undefined) out.push("default " + s.default);
  return out.join(", ");
}

// example returns a value that the service accepts for a schema: the example of the schema, or an object with the
// required fields and the fields with examples.
export function example(doc, schema) {
  const s = resolve(doc, schema);
  if (s.examples) return s.examples[0];
  if (!s.properties) return s.default ?? (s.type === "integer" ? s.minimum ?? 0 : "");
  const required = new Set(s.required || []);
  return Object.fromEntries(Object.entries(s.properties)
    .filter(([name, p]) => required.has(name) || p.examples).map(([name, p]) => [name, example(doc, p)]));
}

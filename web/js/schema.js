/**
 * The part of JSON Schema (2020-12) that the form reads, as pydantic writes it.
 *
 * @typedef {object} Schema
 * @property {string} [type]
 * @property {Record<string, Schema>} [properties]
 * @property {Record<string, Schema>} [$defs]
 * @property {string} [$ref]
 * @property {Schema[]} [anyOf]
 * @property {Schema[]} [oneOf]
 * @property {Schema[]} [allOf]
 * @property {unknown[]} [enum]
 * @property {unknown} [default]
 * @property {string} [title]
 * @property {string} [description]
 * @property {string} [format]
 * @property {string} [contentMediaType]
 * @property {number} [minimum]
 * @property {number} [maximum]
 * @property {number} [exclusiveMinimum]
 * @property {number} [exclusiveMaximum]
 * @property {number} [multipleOf]
 * @property {number} [maxLength]
 *
 * @typedef {"text" | "prompt" | "number" | "boolean" | "choice" | "image"} FieldKind
 *
 * @typedef {object} Field one control of the form
 * @property {string} name
 * @property {FieldKind} kind
 * @property {string} title
 * @property {string} description
 * @property {unknown} initial the default, or null
 * @property {boolean} required
 * @property {unknown[]} choices of a "choice"
 * @property {boolean} integer whether a "number" is an integer
 * @property {number | undefined} min of a "number"
 * @property {number | undefined} max of a "number"
 * @property {number | "any"} step of a "number"
 * @property {number | undefined} maxLength of a text
 */

/**
 * Reads the properties of an object schema, in their order.
 *
 * @param {Schema | null} schema
 * @param {string[]} required names of required fields
 * @param {Record<string, unknown>} defaults values for properties without a default
 * @returns {Field[]}
 */
export function readFields(schema, required = [], defaults = {}) {
  if (!schema) return [];
  return Object.entries(schema.properties ?? {}).map(([name, property]) => {
    const flat = flatten(property, schema);
    return {
      name,
      kind: kindOf(name, flat),
      title: flat.title ?? titleOf(name),
      description: flat.description ?? "",
      initial: flat.default ?? defaults[name] ?? null,
      required: required.includes(name),
      choices: flat.enum ?? [],
      maxLength: flat.maxLength,
      ...rangeOf(flat),
    };
  });
}

/**
 * Returns a readable title for a name in snake case.
 *
 * @param {string} name
 * @returns {string} such as "Queue depth" for "queue_depth"
 */
export function titleOf(name) {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/**
 * Resolves references, and chooses the first alternative that is not null. Members of the property take precedence over
 * those of the schema that it refers to.
 *
 * @param {Schema} property
 * @param {Schema} root
 * @returns {Schema}
 */
function flatten(property, root) {
  const alternatives = property.anyOf ?? property.oneOf ?? property.allOf ?? [];
  const chosen = alternatives.find((alternative) => alternative.type !== "null");
  const target = property.$ref ? resolveReference(property.$ref, root) : chosen;
  return target ? { ...flatten(target, root), ...property } : property;
}

/**
 * @param {string} path such as "#/$defs/Theme"
 * @param {Schema} root
 * @returns {Schema}
 */
function resolveReference(path, root) {
  const keys = path.split("/").slice(1);
  return keys.reduce((/** @type {any} */ node, key) => node[key], root);
}

/**
 * @param {string} name
 * @param {Schema} schema
 * @returns {FieldKind}
 */
function kindOf(name, schema) {
  if (schema.enum) return "choice";
  if (schema.type === "boolean") return "boolean";
  if (schema.type === "number" || schema.type === "integer") return "number";
  const isImage = schema.format === "image" || schema.format === "data-url";
  if (isImage || schema.contentMediaType?.startsWith("image/")) return "image";
  return name === "prompt" || schema.format === "textarea" ? "prompt" : "text";
}

/** @param {Schema} schema */
function rangeOf(schema) {
  const integer = schema.type === "integer";
  const margin = integer ? 1 : 0;
  const min = schema.minimum ?? (schema.exclusiveMinimum === undefined ? undefined : schema.exclusiveMinimum + margin);
  const max = schema.maximum ?? (schema.exclusiveMaximum === undefined ? undefined : schema.exclusiveMaximum - margin);
  return { integer, min, max, step: schema.multipleOf ?? (integer ? 1 : stepOf(min, max)) };
}

/**
 * Returns the largest power of ten that divides the range into at least 100 steps.
 *
 * @param {number | undefined} min
 * @param {number | undefined} max
 * @returns {number | "any"}
 */
function stepOf(min, max) {
  if (min === undefined || max === undefined || max <= min) return "any";
  return 10 ** Math.floor(Math.log10((max - min) / 100));
}

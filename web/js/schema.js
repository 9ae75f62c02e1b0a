/**
 * What kind of control a property of a JSON Schema asks for.
 *
 * @typedef {object} Field
 * @property {string} name
 * @property {"text" | "prompt" | "number" | "boolean" | "choice" | "image"} kind
 * @property {string} title
 * @property {string} description
 * @property {unknown} initial the default, or null
 * @property {boolean} required
 * @property {unknown[]} choices for "choice"
 * @property {boolean} integer for "number"
 * @property {number | undefined} min for "number"
 * @property {number | undefined} max for "number"
 * @property {number | "any"} step for "number"
 * @property {number | undefined} maxLength for texts
 */

/**
 * Reads the properties of an object schema (JSON Schema 2020-12, as pydantic writes it) in their order.
 *
 * @param {object} schema
 * @param {string[]} required names that a context must have
 * @param {Record<string, unknown>} defaults values where the schema names none
 * @returns {Field[]}
 */
export function readFields(schema, required = [], defaults = {}) {
  return Object.entries(schema?.properties ?? {}).map(([name, property]) => {
    const whole = flatten(property, schema);
    return {
      name,
      kind: kindOf(name, whole),
      title: whole.title ?? titleOf(name),
      description: whole.description ?? "",
      initial: whole.default ?? defaults[name] ?? null,
      required: required.includes(name),
      choices: whole.enum ?? [],
      maxLength: whole.maxLength,
      ...rangeOf(whole),
    };
  });
}

/** Follows references, and takes the one alternative that is not null; words of the property win over those it refers to. */
function flatten(property, root) {
  const alternatives = property.anyOf ?? property.oneOf ?? property.allOf ?? [];
  const chosen = alternatives.find((alternative) => alternative.type !== "null");
  const target = property.$ref ? refer(property.$ref, root) : chosen;
  return target ? { ...flatten(target, root), ...property } : property;
}

function refer(path, root) {
  return path.split("/").slice(1).reduce((node, step) => node[step], root);
}

function kindOf(name, schema) {
  if (schema.enum) return "choice";
  if (schema.type === "boolean") return "boolean";
  if (schema.type === "number" || schema.type === "integer") return "number";
  if (schema.contentMediaType?.startsWith("image/") || ["image", "data-url"].includes(schema.format)) return "image";
  return name === "prompt" || schema.format === "textarea" ? "prompt" : "text";
}

function rangeOf(schema) {
  const integer = schema.type === "integer";
  const margin = integer ? 1 : 0;
  const min = schema.minimum ?? (schema.exclusiveMinimum === undefined ? undefined : schema.exclusiveMinimum + margin);
  const max = schema.maximum ?? (schema.exclusiveMaximum === undefined ? undefined : schema.exclusiveMaximum - margin);
  return { integer, min, max, step: schema.multipleOf ?? (integer ? 1 : stepOf(min, max)) };
}

/** The power of ten that divides the range into at least a hundred steps. */
function stepOf(min, max) {
  if (min === undefined || max === undefined || max <= min) return "any";
  return 10 ** Math.floor(Math.log10((max - min) / 100));
}

function titleOf(name) {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

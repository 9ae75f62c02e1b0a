import assert from "node:assert/strict";
import { test } from "node:test";
import { readFields, titleOf } from "../../web/js/schema.js";

/**
 * @param {import("../../web/js/schema.js").Schema} property
 * @param {string} [name]
 */
const readOne = (property, name = "field") => readFields({ properties: { [name]: property } })[0];

for (const [kind, property, name] of /** @type {[string, object, string?][]} */ ([
  ["text", { type: "string" }],
  ["prompt", { type: "string" }, "prompt"],
  ["prompt", { type: "string", format: "textarea" }],
  ["number", { type: "number" }],
  ["number", { type: "integer" }],
  ["boolean", { type: "boolean" }],
  ["choice", { type: "string", enum: ["a", "b"] }],
  ["image", { type: "string", contentMediaType: "image/*" }],
  ["image", { type: "string", format: "data-url" }],
  ["image", { anyOf: [{ type: "null" }, { type: "string", format: "image" }], default: null }],
])) {
  test(`${JSON.stringify(property)} is a ${kind}`, () => {
    assert.equal(readOne(property, name).kind, kind);
  });
}

test("references are resolved, and the members of the property take precedence", () => {
  const [field] = readFields({
    properties: { theme: { $ref: "#/$defs/Theme", default: "stone", description: "Colors" } },
    $defs: { Theme: { type: "string", enum: ["stone", "ice"], title: "Theme", description: "A theme" } },
  });
  assert.equal(field.kind, "choice");
  assert.deepEqual(field.choices, ["stone", "ice"]);
  assert.deepEqual([field.initial, field.title, field.description], ["stone", "Theme", "Colors"]);
});

test("the initial value is the default of the schema, else that of the demo, else null", () => {
  const properties = { a: { type: "string", default: "x" }, b: { type: "string" }, c: { type: "string" } };
  const fields = readFields({ properties }, [], { a: "y", b: "z" });
  assert.deepEqual(
    fields.map(({ initial }) => initial),
    ["x", "z", null],
  );
});

test("required fields are marked", () => {
  const fields = readFields({ properties: { a: {}, b: {} } }, ["b"]);
  assert.deepEqual(
    fields.map(({ required }) => required),
    [false, true],
  );
});

for (const [
  property,
  min,
  max,
  step,
] of /** @type {[object, number | undefined, number | undefined, number | "any"][]} */ ([
  [{ type: "number", minimum: 0, maximum: 1 }, 0, 1, 0.01],
  [{ type: "number", minimum: 0, maximum: 500 }, 0, 500, 1],
  [{ type: "number", minimum: 0 }, 0, undefined, "any"],
  [{ type: "number", exclusiveMinimum: 0, maximum: 1, multipleOf: 0.25 }, 0, 1, 0.25],
  [{ type: "integer", exclusiveMinimum: 0, exclusiveMaximum: 10 }, 1, 9, 1],
])) {
  test(`the range of ${JSON.stringify(property)}`, () => {
    const field = readOne(property);
    assert.deepEqual([field.min, field.max, field.step], [min, max, step]);
  });
}

test("a schema without properties has no fields", () => {
  assert.deepEqual(readFields(null), []);
  assert.deepEqual(readFields({ type: "object" }), []);
});

test("a title is made from the name", () => {
  assert.equal(titleOf("number_of_things"), "Number of things");
});

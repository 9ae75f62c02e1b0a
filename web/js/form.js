import { makeControl } from "./field.js";
import { readFields } from "./schema.js";

/** Pauses, in milliseconds, after which a change is sent by itself. */
const DEBOUNCE_MS = { prompt: 1200, text: 800, number: 120, boolean: 0, choice: 0, image: 0 };

/** The controls that are generated from the JSON Schema of a demo's fields. */
export class SchemaForm {
  #form;
  #fields;
  #controls = new Map();
  #timers = new Map();

  /**
   * @param {HTMLFormElement} form is filled
   * @param {{fields: object | null, defaults: Record<string, unknown>}} controls JSON Schema of the fields, their values
   * @param {string[]} required names that a context must have
   */
  constructor(form, { fields, defaults }, required) {
    this.#form = form;
    this.#fields = readFields(fields, required, defaults);
    this.onChange = (_name, _value) => {};
    this.#fields.forEach((field) => this.#add(field));
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** Whether the demo has no fields. */
  get isEmpty() {
    return this.#fields.length === 0;
  }

  /** @returns {import("./schema.js").Field | undefined} */
  field(name) {
    return this.#fields.find((field) => field.name === name);
  }

  /** Names of required fields that have no value yet. */
  get missing() {
    return this.#fields.filter((field) => field.required && this.#value(field.name) === null).map((field) => field.name);
  }

  /** Values of all fields that have one. */
  get values() {
    const pairs = this.#fields.map(({ name }) => [name, this.#value(name)]);
    return Object.fromEntries(pairs.filter(([, value]) => value !== null));
  }

  /** Sets a value without reporting it. */
  set(name, value) {
    this.#controls.get(name).set(value);
  }

  /**
   * Shows a sentence at each field that is named, and clears all others.
   *
   * @param {Map<string, string>} sentences
   * @returns {string[]} names without a control
   */
  showErrors(sentences) {
    for (const [name, control] of this.#controls) control.showError(sentences.get(name) ?? "");
    return [...sentences.keys()].filter((name) => !this.#controls.has(name));
  }

  /** Takes the person to the first field that is marked. */
  focusError() {
    const marked = this.#fields.find(({ name }) => this.#controls.get(name).isInvalid);
    if (marked) this.#controls.get(marked.name).focus();
  }

  #value(name) {
    return this.#controls.get(name).value;
  }

  #add(field) {
    const control = makeControl(field, (now) => this.#changed(field, now));
    this.#controls.set(field.name, control);
    this.#form.append(control.element);
  }

  #changed(field, now) {
    clearTimeout(this.#timers.get(field.name));
    const report = () => {
      const { complaint, showError, value } = this.#controls.get(field.name);
      showError(complaint);
      if (complaint) return;
      if (value !== null || !field.required) this.onChange(field.name, value);
    };
    if (now) report();
    else this.#timers.set(field.name, setTimeout(report, DEBOUNCE_MS[field.kind]));
  }
}

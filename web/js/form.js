import { createControl } from "./field.js";
import { readFields } from "./schema.js";

/** @import { Field, FieldKind } from "./schema.js" */

/**
 * Delay after which a change is sent, in milliseconds.
 *
 * @type {Record<FieldKind, number>}
 */
const DEBOUNCE_MS = { prompt: 1200, text: 800, number: 120, boolean: 0, choice: 0, image: 0 };

/** The controls that are generated from the JSON Schema of the demo's fields. */
export class SchemaForm {
  #form;
  #fields;
  /** @type {Map<string, import("./field.js").Control>} */
  #controls = new Map();
  /** @type {Map<string, ReturnType<typeof setTimeout>>} */
  #timers = new Map();

  /** @type {(name: string, value: unknown) => void} Called when the value of a field has changed. */
  onChange = () => {};

  /**
   * @param {HTMLFormElement} form to fill
   * @param {Pick<import("./api.js").ControlsDescription, "fields" | "defaults">} controls
   * @param {string[]} required names of required fields
   */
  constructor(form, { fields, defaults }, required) {
    this.#form = form;
    this.#fields = readFields(fields, required, defaults);
    for (const field of this.#fields) this.#add(field);
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** Whether the demo has no fields. */
  get isEmpty() {
    return this.#fields.length === 0;
  }

  /**
   * @param {string | null} name
   * @returns {Field | undefined}
   */
  field(name) {
    return this.#fields.find((field) => field.name === name);
  }

  /** Required fields without a value. */
  get missing() {
    return this.#fields.filter(({ name, required }) => required && this.#controls.get(name)?.value === null);
  }

  /** @returns {Record<string, unknown>} values of all fields that have one */
  get values() {
    const pairs = [...this.#controls].map(([name, control]) => [name, control.value]);
    return Object.fromEntries(pairs.filter(([, value]) => value !== null));
  }

  /**
   * Sets a value without a call of `onChange`.
   *
   * @param {string} name
   * @param {unknown} value
   */
  set(name, value) {
    this.#controls.get(name)?.set(value);
  }

  /**
   * Shows errors at the named fields, and clears those of all others.
   *
   * @param {Map<string, string>} messages by field name
   * @returns {string[]} names that are no fields
   */
  showErrors(messages) {
    for (const [name, control] of this.#controls) control.showError(messages.get(name) ?? "");
    return [...messages.keys()].filter((name) => !this.#controls.has(name));
  }

  /** Moves the focus to the first field with an error. */
  focusError() {
    [...this.#controls.values()].find((control) => control.isInvalid)?.focus();
  }

  /** @param {Field} field */
  #add(field) {
    const control = createControl(field, (immediate) => this.#onInput(field, immediate));
    this.#controls.set(field.name, control);
    this.#form.append(control.element);
  }

  /**
   * @param {Field} field
   * @param {boolean} immediate
   */
  #onInput(field, immediate) {
    clearTimeout(this.#timers.get(field.name));
    if (immediate) this.#report(field);
    else
      this.#timers.set(
        field.name,
        setTimeout(() => this.#report(field), DEBOUNCE_MS[field.kind]),
      );
  }

  /** @param {Field} field */
  #report({ name, required }) {
    const control = this.#controls.get(name);
    if (!control) return;
    const { validationMessage, value } = control;
    control.showError(validationMessage);
    if (!validationMessage && (value !== null || !required)) this.onChange(name, value);
  }
}

import { create } from "./dom.js";

/** @import { Field } from "./schema.js" */

/** An image file larger than this is rejected before it is sent. */
const MAX_IMAGE_BYTES = 8 * 2 ** 20;
/** Up to this many choices, with this many characters in all, are laid out side by side. */
const MAX_SEGMENTS = 4;
const MAX_SEGMENT_CHARACTERS = 28;
/** A number with more steps than this gets a text box instead of a slider. */
const MAX_SLIDER_STEPS = 10_000;

/**
 * @typedef {object} Control
 * @property {HTMLElement} element
 * @property {unknown} value null if there is none
 * @property {boolean} isInvalid whether an error is shown
 * @property {string} validationMessage why the browser considers the entry invalid, else ""
 * @property {(value: unknown) => void} set
 * @property {(message: string) => void} showError "" clears it
 * @property {() => void} focus
 *
 * @typedef {object} Frame label, help and error around the body of a field
 * @property {string} id
 * @property {HTMLElement} element
 * @property {HTMLElement} body
 * @property {HTMLElement} readout
 * @property {(message: string) => void} showError
 *
 * @typedef {object} Body what differs between the kinds of fields
 * @property {Node[]} nodes
 * @property {() => unknown} get
 * @property {(value: any) => void} set
 * @property {() => string} [validationMessage]
 *
 * @typedef {(immediate: boolean) => void} OnChange `immediate`: the entry is complete and is to be sent without delay
 * @typedef {(field: Field, onChange: OnChange, frame: Frame) => Body} CreateBody
 */

/** @type {Record<import("./schema.js").FieldKind, CreateBody>} */
const BODIES = {
  text: createText,
  prompt: createPrompt,
  number: createNumber,
  boolean: createSwitch,
  choice: createChoice,
  image: createImage,
};

/**
 * Creates the control of one field.
 *
 * @param {Field} field
 * @param {OnChange} onChange
 * @returns {Control}
 */
export function createControl(field, onChange) {
  const frame = createFrame(field);
  const body = BODIES[field.kind](field, onChange, frame);
  frame.body.append(...body.nodes);
  body.set(field.initial);
  return {
    element: frame.element,
    get value() {
      return body.get();
    },
    get validationMessage() {
      return body.validationMessage?.() ?? "";
    },
    get isInvalid() {
      return frame.element.classList.contains("invalid");
    },
    set: body.set,
    showError: frame.showError,
    focus: () => /** @type {HTMLElement | null} */ (frame.body.querySelector("input, select, textarea"))?.focus(),
  };
}

/**
 * @param {Field} field
 * @returns {Frame}
 */
function createFrame(field) {
  const id = `field-${field.name}`;
  const readout = create("span", { className: "readout" });
  readout.setAttribute("aria-hidden", "true");
  const mark = field.required ? [create("span", { className: "required", textContent: "required" })] : [];
  const label = create("label", { htmlFor: id, id: `${id}-label` }, field.title, ...mark);
  const help = create("p", { className: "help", id: `${id}-help`, textContent: field.description });
  const error = create("p", { className: "field-error", id: `${id}-error`, hidden: true });
  error.setAttribute("role", "alert");
  const body = create("div", { className: "field-body" });
  const head = create("div", { className: "field-head" }, label, readout);
  const element = create("div", { className: `field field-${field.kind}` }, head, body, help, error);
  element.dataset.field = field.name;
  help.hidden = !field.description;
  const showError = (/** @type {string} */ message) => {
    error.textContent = message;
    error.hidden = !message;
    element.classList.toggle("invalid", Boolean(message));
  };
  return { id, element, body, readout, showError };
}

/**
 * Connects a form element with its label, help and error.
 *
 * @template {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} T
 * @param {T} element
 * @param {Frame} frame
 * @param {Field} field
 * @returns {T}
 */
function connect(element, frame, field) {
  element.id = frame.id;
  element.name = field.name;
  element.setAttribute("aria-describedby", `${frame.id}-help ${frame.id}-error`);
  return element;
}

/** @type {CreateBody} */
function createText(field, onChange, frame) {
  const input = connect(create("input", { type: "text", autocomplete: "off" }), frame, field);
  return createTextBody(input, field, onChange);
}

/** @type {CreateBody} */
function createPrompt(field, onChange, frame) {
  const area = connect(create("textarea", { rows: 2, enterKeyHint: "send" }), frame, field);
  const send = create("button", { type: "button", className: "send", textContent: "Send" });
  send.addEventListener("click", () => {
    onChange(true);
    area.form?.requestSubmit();
  });
  return { ...createTextBody(area, field, onChange), nodes: [area, send] };
}

/**
 * @param {HTMLInputElement | HTMLTextAreaElement} element
 * @param {Field} field
 * @param {OnChange} onChange
 * @returns {Body}
 */
function createTextBody(element, field, onChange) {
  if (field.maxLength) element.maxLength = field.maxLength;
  element.addEventListener("input", () => onChange(false));
  element.addEventListener("keydown", (event) => {
    const { key, shiftKey, isComposing } = /** @type {KeyboardEvent} */ (event);
    if (key !== "Enter" || shiftKey || isComposing) return;
    event.preventDefault();
    onChange(true);
    element.form?.requestSubmit();
  });
  // Whether an empty text means null or "" follows from the default.
  const empty = typeof field.initial === "string" && !field.required ? "" : null;
  return {
    nodes: [element],
    get: () => element.value || empty,
    set: (value) => {
      element.value = value ?? "";
    },
  };
}

/** @type {CreateBody} */
function createNumber(field, onChange, frame) {
  const { min, max, step } = field;
  const range = min === undefined || max === undefined ? null : { min, length: max - min };
  const isSlider = range !== null && step !== "any" && range.length / step <= MAX_SLIDER_STEPS;
  const input = connect(create("input", { type: isSlider ? "range" : "number" }), frame, field);
  if (min !== undefined) input.min = String(min);
  if (max !== undefined) input.max = String(max);
  input.step = String(step);
  input.required = field.initial !== null;
  input.inputMode = field.integer ? "numeric" : "decimal";
  const showValue = () => {
    if (!isSlider) return;
    frame.readout.textContent = input.value;
    input.style.setProperty("--share", String((input.valueAsNumber - range.min) / range.length));
  };
  input.addEventListener("input", () => {
    showValue();
    onChange(false);
  });
  input.addEventListener("change", () => onChange(true));
  return {
    nodes: [input],
    get: () => (input.value === "" || !input.validity.valid ? null : Number(input.value)),
    validationMessage: () => input.validationMessage,
    set: (value) => {
      input.value = String(value ?? (isSlider ? range.min : ""));
      showValue();
    },
  };
}

/** @type {CreateBody} */
function createSwitch(field, onChange, frame) {
  const input = connect(create("input", { type: "checkbox", className: "switch" }), frame, field);
  input.setAttribute("role", "switch");
  input.addEventListener("change", () => onChange(true));
  return {
    nodes: [input],
    get: () => input.checked,
    set: (value) => {
      input.checked = Boolean(value);
    },
  };
}

/** @type {CreateBody} */
function createChoice(field, onChange, frame) {
  const characters = field.choices.join("").length;
  const fits = field.choices.length <= MAX_SEGMENTS && characters <= MAX_SEGMENT_CHARACTERS;
  return fits ? createSegments(field, onChange, frame) : createList(field, onChange, frame);
}

/** @type {CreateBody} */
function createSegments(field, onChange, frame) {
  const group = create("div", { className: "segments", id: frame.id });
  group.setAttribute("role", "radiogroup");
  group.setAttribute("aria-labelledby", `${frame.id}-label`);
  const inputs = field.choices.map((option, index) => {
    const input = create("input", { type: "radio", name: field.name, value: String(index) });
    input.addEventListener("change", () => onChange(true));
    group.append(create("label", {}, input, create("span", { textContent: String(option) })));
    return input;
  });
  return {
    nodes: [group],
    get: () => field.choices[inputs.findIndex((input) => input.checked)] ?? null,
    set: (value) => {
      inputs.forEach((input, index) => {
        input.checked = field.choices[index] === value;
      });
    },
  };
}

/** @type {CreateBody} */
function createList(field, onChange, frame) {
  const select = connect(create("select"), frame, field);
  const options = field.choices.map((choice, index) =>
    create("option", { value: String(index), text: String(choice) }),
  );
  select.append(...options);
  select.addEventListener("change", () => onChange(true));
  return {
    nodes: [select],
    get: () => field.choices[select.selectedIndex] ?? null,
    set: (value) => {
      select.selectedIndex = field.choices.indexOf(value);
    },
  };
}

/** @type {CreateBody} */
function createImage(field, onChange, frame) {
  const input = connect(create("input", { type: "file", accept: "image/*" }), frame, field);
  const thumbnail = create("img", { className: "thumbnail", alt: "", hidden: true });
  /** @type {string | null} */
  let url = null;
  const set = (/** @type {string | null} */ value) => {
    url = value;
    thumbnail.hidden = !url;
    if (url) thumbnail.src = url;
    else thumbnail.removeAttribute("src");
  };
  input.addEventListener("change", async () => {
    const file = input.files?.[0];
    if (file && file.size > MAX_IMAGE_BYTES) {
      const [size, max] = [file.size, MAX_IMAGE_BYTES].map((bytes) => Math.ceil(bytes / 2 ** 20));
      frame.showError(`The image has ${size} MB. The maximum is ${max} MB.`);
      return;
    }
    set(file ? await readDataUrl(file) : null);
    onChange(true);
  });
  return { nodes: [thumbnail, input], get: () => url, set };
}

/**
 * @param {File} file
 * @returns {Promise<string>}
 */
function readDataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(/** @type {string} */ (reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

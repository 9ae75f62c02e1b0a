/** A picture larger than this is refused before it is sent. */
const MOST_IMAGE_BYTES = 8 * 2 ** 20;
/** Up to this many choices, with this many letters in all, lie side by side. */
const SEGMENTS = { choices: 4, letters: 28 };

/**
 * Makes the control of one field.
 *
 * @param {import("./schema.js").Field} field
 * @param {(now: boolean) => void} onChange `now`: the person has finished and does not want to wait
 * @returns {{
 *   element: HTMLElement,
 *   value: unknown,
 *   isInvalid: boolean,
 *   complaint: string,
 *   set: (value: unknown) => void,
 *   showError: (sentence: string) => void,
 *   focus: () => void,
 * }} `value` is null while there is none; `complaint` is what the browser says of an entry that cannot be sent, else ""
 */
export function makeControl(field, onChange) {
  const makers = { text, prompt, number, boolean, choice, image };
  const frame = makeFrame(field);
  const part = makers[field.kind](field, onChange, frame);
  frame.body.append(...part.nodes);
  part.set(field.initial);
  return {
    element: frame.element,
    get value() {
      return part.get();
    },
    get complaint() {
      return part.complaint?.() ?? "";
    },
    set: part.set,
    get isInvalid() {
      return frame.element.classList.contains("invalid");
    },
    showError: frame.showError,
    focus: () => frame.body.querySelector("input, select, textarea").focus(),
  };
}

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function makeFrame(field) {
  const id = `field-${field.name}`;
  const readout = make("span", { className: "readout" });
  readout.setAttribute("aria-hidden", "true");
  const mark = field.required ? [make("span", { className: "required", textContent: "required" })] : [];
  const label = make("label", { htmlFor: id, id: `${id}-label` }, field.title, ...mark);
  const help = make("p", { className: "help", id: `${id}-help`, textContent: field.description });
  const error = make("p", { className: "field-error", id: `${id}-error`, hidden: true });
  error.setAttribute("role", "alert");
  const body = make("div", { className: "field-body" });
  const head = make("div", { className: "field-head" }, label, readout);
  const element = make("div", { className: `field field-${field.kind}` }, head, body, help, error);
  element.dataset.field = field.name;
  help.hidden = !field.description;
  const showError = (sentence) => {
    error.textContent = sentence;
    error.hidden = !sentence;
    element.classList.toggle("invalid", Boolean(sentence));
  };
  return { element, body, readout, showError, id };
}

function named(element, frame, field) {
  element.id = frame.id;
  element.name = field.name;
  element.setAttribute("aria-describedby", `${frame.id}-help ${frame.id}-error`);
  return element;
}

function text(field, onChange, frame) {
  const input = named(make("input", { type: "text", autocomplete: "off" }), frame, field);
  return writing(input, field, onChange);
}

function prompt(field, onChange, frame) {
  const area = named(make("textarea", { rows: 2, enterKeyHint: "send" }), frame, field);
  const send = make("button", { type: "button", className: "send", textContent: "Send" });
  send.addEventListener("click", () => {
    onChange(true);
    area.form.requestSubmit();
  });
  const part = writing(area, field, onChange);
  return { ...part, nodes: [area, send] };
}

function writing(element, field, onChange) {
  if (field.maxLength) element.maxLength = field.maxLength;
  element.addEventListener("input", () => onChange(false));
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    onChange(true);
    element.form.requestSubmit();
  });
  return {
    nodes: [element],
    get: () => element.value || (field.required ? null : emptyOf(field)),
    set: (value) => (element.value = value ?? ""),
  };
}

/** What an emptied text means: its default decides whether null or an empty text. */
function emptyOf(field) {
  return typeof field.initial === "string" ? "" : null;
}

function number(field, onChange, frame) {
  const ranged = field.min !== undefined && field.max !== undefined && (field.max - field.min) / field.step <= 10_000;
  const input = named(make("input", { type: ranged ? "range" : "number" }), frame, field);
  if (field.min !== undefined) input.min = field.min;
  if (field.max !== undefined) input.max = field.max;
  input.step = field.step;
  input.required = field.initial !== null;
  input.inputMode = field.integer ? "numeric" : "decimal";
  const show = () => {
    if (!ranged) return;
    frame.readout.textContent = input.value;
    input.style.setProperty("--share", (input.value - field.min) / (field.max - field.min));
  };
  input.addEventListener("input", () => {
    show();
    onChange(false);
  });
  input.addEventListener("change", () => onChange(true));
  return {
    nodes: [input],
    get: () => (input.value === "" || !input.validity.valid ? null : Number(input.value)),
    complaint: () => input.validationMessage,
    set: (value) => {
      input.value = value ?? (ranged ? field.min : "");
      show();
    },
  };
}

function boolean(field, onChange, frame) {
  const input = named(make("input", { type: "checkbox", className: "switch" }), frame, field);
  input.setAttribute("role", "switch");
  input.addEventListener("change", () => onChange(true));
  return { nodes: [input], get: () => input.checked, set: (value) => (input.checked = Boolean(value)) };
}

function choice(field, onChange, frame) {
  const letters = field.choices.join("").length;
  const few = field.choices.length <= SEGMENTS.choices && letters <= SEGMENTS.letters;
  return few ? segments(field, onChange, frame) : list(field, onChange, frame);
}

function segments(field, onChange, frame) {
  const group = make("div", { className: "segments", id: frame.id });
  group.setAttribute("role", "radiogroup");
  group.setAttribute("aria-labelledby", `${frame.id}-label`);
  const inputs = field.choices.map((option, index) => {
    const input = make("input", { type: "radio", name: field.name, value: index });
    input.addEventListener("change", () => onChange(true));
    group.append(make("label", {}, input, make("span", { textContent: String(option) })));
    return input;
  });
  return {
    nodes: [group],
    get: () => field.choices[inputs.findIndex((input) => input.checked)] ?? null,
    set: (value) => inputs.forEach((input, index) => (input.checked = field.choices[index] === value)),
  };
}

function list(field, onChange, frame) {
  const select = named(make("select"), frame, field);
  select.append(...field.choices.map((option, index) => make("option", { value: index, textContent: String(option) })));
  select.addEventListener("change", () => onChange(true));
  return {
    nodes: [select],
    get: () => field.choices[select.value] ?? null,
    set: (value) => (select.selectedIndex = field.choices.indexOf(value)),
  };
}

function image(field, onChange, frame) {
  const input = named(make("input", { type: "file", accept: "image/*" }), frame, field);
  const thumbnail = make("img", { className: "thumbnail", alt: "", hidden: true });
  let url = null;
  const set = (value) => {
    url = value;
    thumbnail.hidden = !url;
    if (url) thumbnail.src = url;
    else thumbnail.removeAttribute("src");
  };
  input.addEventListener("change", async () => {
    const [file] = input.files;
    if (file?.size > MOST_IMAGE_BYTES) {
      const [size, most] = [file.size, MOST_IMAGE_BYTES].map((bytes) => Math.ceil(bytes / 2 ** 20));
      frame.showError(`This picture has ${size} MB; at most ${most} MB can be sent.`);
      return;
    }
    set(file ? await readDataUrl(file) : null);
    onChange(true);
  });
  return { nodes: [thumbnail, input], get: () => url, set };
}

function readDataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

import { byId, create } from "./dom.js";

/**
 * What the demo adds to the page.
 *
 * @typedef {object} PageStyle
 * @property {string | null} base address of its files, which ends with a slash
 * @property {string[]} files those of `extra.css` and `extra.js` that exist
 * @property {string | null} logo name of a file
 * @property {string} help
 * @property {string} footer
 * @property {string[]} hud names of the values that are shown over the picture
 * @property {"auto" | "dark" | "light"} theme
 * @property {Record<string, string>} colors CSS colors by the name of a variable
 */

/** @param {PageStyle} style */
export function applyStyle({ base, files, logo, help, footer, theme, colors }) {
  const root = document.documentElement;
  if (theme !== "auto") root.dataset.theme = theme;
  for (const [name, color] of Object.entries(colors)) root.style.setProperty(`--${name}`, color);
  byId("help").hidden = !help;
  byId("help-text").replaceChildren(
    ...help.split(/\n\s*\n/).map((paragraph) => create("p", { textContent: paragraph })),
  );
  byId("footer").hidden = !footer;
  byId("footer").textContent = footer;
  if (base === null) return;
  if (logo !== null) Object.assign(byId("logo", HTMLImageElement), { src: base + logo, hidden: false });
  if (files.includes("extra.css"))
    document.head.append(create("link", { rel: "stylesheet", href: `${base}extra.css` }));
  if (files.includes("extra.js")) {
    document.head.append(create("script", { type: "module", src: `${base}extra.js` }));
  }
}

/** The values of the model over the picture. */
export class Hud {
  #element = byId("hud");
  #names;

  /** @param {string[]} names in the order in which they are shown */
  constructor(names) {
    this.#names = names;
  }

  /** @param {Record<string, number>} values */
  show(values) {
    const shown = this.#names.filter((name) => name in values);
    this.#element.hidden = !shown.length;
    this.#element.replaceChildren(
      ...shown.flatMap((name) => [
        create("dt", { textContent: name.replaceAll("_", " ") }),
        create("dd", { textContent: formatValue(values[name]) }),
      ]),
    );
  }
}

/**
 * @param {number} value
 * @returns {string} with up to three digits after the point
 */
export function formatValue(value) {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}

/** The page of a server with several demos: a card for each, kept up to date while the page is visible. */

import { byId, create } from "./dom.js";

/**
 * @typedef {object} GalleryDemo a demo, as the server describes it
 * @property {string} name
 * @property {string} title
 * @property {string} description
 * @property {"unloaded" | "loading" | "ready" | "failed"} state
 * @property {{ message: string, fraction: number | null } | null} progress of loading the model
 * @property {string | null} error why it failed
 * @property {number | null} capacity
 * @property {number} playing
 * @property {number} waiting
 * @property {{ page: string, picture?: string }} links
 */

/**
 * @typedef {object} Card the elements of a demo that change
 * @property {HTMLElement} state
 * @property {HTMLImageElement} picture
 */

const INTERVAL_MS = 2000;

/** @type {Map<string, Card>} */
const cards = new Map();

async function update() {
  if (document.hidden) return;
  try {
    const response = await fetch("api/demos");
    const body = await response.json();
    if (!response.ok) throw new Error(body.detail ?? body.title);
    for (const demo of body.demos) show(demo);
    say("");
  } catch (error) {
    say(error instanceof TypeError ? "The server cannot be reached. Retrying." : String(Object(error).message));
  }
}

/** @param {GalleryDemo} demo */
function show(demo) {
  const { state, picture } = cards.get(demo.name) ?? add(demo);
  const text = stateText(demo);
  if (state.textContent !== text) state.textContent = text;
  state.dataset.state = demo.state;
  if (demo.links.picture) picture.src = `${demo.links.picture}?at=${Date.now()}`;
}

/** @param {GalleryDemo} demo @returns {Card} */
function add(demo) {
  const picture = create("img", { alt: "", hidden: true });
  picture.addEventListener("load", () => {
    picture.hidden = false;
  });
  const frame = create("div", { className: "demo-picture" }, picture);
  frame.dataset.letter = [...demo.title][0].toUpperCase();
  frame.style.setProperty("--hue", String(hueOf(demo.name)));
  const link = create("a", { href: demo.links.page, textContent: demo.title });
  const description = create("p", { className: "demo-description", textContent: demo.description });
  const state = create("p", { className: "demo-state" });
  const text = create("div", { className: "demo-text" }, create("h2", {}, link), description, state);
  byId("demos").append(create("li", { className: "demo" }, frame, text));
  const card = { state, picture };
  cards.set(demo.name, card);
  return card;
}

/** @param {GalleryDemo} demo */
function stateText({ state, progress, error, capacity, playing, waiting }) {
  if (state === "unloaded") return "Not loaded";
  if (state === "loading") return progress?.message ?? "Loading";
  if (state === "failed") return `Failed: ${error ?? "the server's log has the reason"}`;
  const parts = [playing === 0 ? "Ready" : `${playing} of ${capacity} playing`];
  if (waiting > 0) parts.push(`${waiting} waiting`);
  return parts.join(", ");
}

/** A hue in degrees that is always the same for a name. @param {string} name */
function hueOf(name) {
  let hash = 0;
  for (const letter of name) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) % 3600;
  return hash % 360;
}

/** @param {string} text */
function say(text) {
  const message = byId("message");
  if (message.textContent !== text) message.textContent = text;
  message.hidden = text === "";
}

setInterval(update, INTERVAL_MS);
document.addEventListener("visibilitychange", update);
update();

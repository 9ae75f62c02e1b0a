/** Access to the elements of the page. */

/**
 * Returns the element with the given id.
 *
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} id
 * @param {new () => T} [type] class of the element
 * @param {Document | ShadowRoot} [root] that contains it, by default the page
 * @returns {T}
 * @throws {Error} if the page has no such element
 */
export function byId(id, type, root = document) {
  const element = root.getElementById(id);
  const expected = type ?? HTMLElement;
  if (!(element instanceof expected)) throw new Error(`The page has no ${expected.name} with the id "${id}"`);
  return /** @type {T} */ (element);
}

/**
 * Returns the first descendant that matches the selector.
 *
 * @template {Element} [T=HTMLElement]
 * @param {ParentNode} parent
 * @param {string} selector
 * @param {new () => T} [type] class of the element
 * @returns {T}
 * @throws {Error} if there is no such element
 */
export function query(parent, selector, type) {
  const element = parent.querySelector(selector);
  const expected = type ?? HTMLElement;
  if (!(element instanceof expected)) throw new Error(`The page has no ${expected.name} that matches ${selector}`);
  return /** @type {T} */ (element);
}

/**
 * Creates an element with the given properties and children.
 *
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Partial<HTMLElementTagNameMap[K]>} [properties]
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function create(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

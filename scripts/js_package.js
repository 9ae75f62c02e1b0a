/**
 * Copies the modules of the page that the npm package needs to clients/js/lib, with the license. `npm pack` runs it.
 */

import { copyFileSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..");
const [WEB, PACKAGE] = [join(ROOT, "web"), join(ROOT, "clients", "js")];

/**
 * Returns a module and all that it imports.
 *
 * @param {string} path
 * @param {Set<string>} [found]
 * @returns {Set<string>}
 */
function closure(path, found = new Set()) {
  if (found.has(path)) return found;
  found.add(path);
  for (const [, name] of readFileSync(path, "utf8").matchAll(/^(?:import|export) [^;]*?from "(\.[^"]+)";$/gms)) {
    closure(join(dirname(path), name), found);
  }
  return found;
}

rmSync(join(PACKAGE, "lib"), { recursive: true, force: true });
for (const path of closure(join(WEB, "realtime-engine.js"))) {
  const copy = join(PACKAGE, "lib", relative(WEB, path));
  mkdirSync(dirname(copy), { recursive: true });
  copyFileSync(path, copy);
}
copyFileSync(join(ROOT, "LICENSE"), join(PACKAGE, "LICENSE"));

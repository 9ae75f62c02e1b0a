/** Fails to compile if the modules of the page do not have the types that the package declares. */

import * as element from "../../web/js/element.js";
import * as session from "../../web/js/embedded_session.js";
import type * as declaredElement from "./element.js";
import type * as declared from "./index.js";

export const connect: typeof declared.connect = session.connect;
export const made: declared.RealtimeSession = session.connect("");
export const tag: declaredElement.RealtimeEngineElement = new element.RealtimeEngineElement();

/**
 * The element `<realtime-engine>`, for pages of any site:
 *
 *     <script type="module" src="https://demo.example/realtime-engine.js"></script>
 *     <realtime-engine src="https://demo.example/"></realtime-engine>
 */

import { connect, define, RealtimeEngineElement } from "./js/element.js";

define();

export { connect, RealtimeEngineElement };

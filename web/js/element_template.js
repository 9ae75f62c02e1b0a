/** The content and the style of `<realtime-engine>`, in its shadow root. */

export const TEMPLATE = `
<div id="stage" class="stage" tabindex="0" role="group" aria-label="Live video">
  <div id="overlay" class="overlay">
    <div role="status"><p id="overlay-title"></p><p id="overlay-text"></p></div>
    <progress id="overlay-progress" max="1" aria-label="Progress" hidden></progress>
    <button id="overlay-button" type="button" hidden></button>
  </div>
  <p id="turn" role="timer" hidden></p>
  <div id="sticks" hidden></div>
</div>
`;

export const STYLE = `
:host {
  display: block; overflow: hidden; min-height: 120px; background: #000; color: #eceae4; color-scheme: dark;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
}
:host([hidden]), [hidden] { display: none !important; }
*, ::before, ::after { box-sizing: border-box; }
p { margin: 0; }
.stage { position: relative; width: 100%; height: 100%; min-height: inherit; }
.stage:focus-visible { outline: 2px solid var(--realtime-engine-accent, #ffb454); outline-offset: -2px; }
.stage.takes-pointer { touch-action: none; user-select: none; -webkit-user-select: none; }
.stage > div:first-child { height: 100%; }
.overlay {
  position: absolute; inset: 0; display: flex; flex-direction: column; align-items: center; justify-content: center;
  gap: 10px; padding: 16px; text-align: center; background: #131519;
}
.overlay.translucent { background: rgb(11 12 14 / .78); }
#overlay-title { font-size: 1.15em; font-weight: 600; }
#overlay-text { color: #b4b6bd; overflow-wrap: anywhere; }
progress { width: min(240px, 70%); height: 4px; accent-color: var(--realtime-engine-accent, #ffb454); }
button {
  padding: 8px 18px; border: 0; border-radius: 8px; font: inherit; font-weight: 600; cursor: pointer;
  background: var(--realtime-engine-accent, #ffb454); color: #241500;
}
button:focus-visible { outline: 2px solid #fff; outline-offset: 2px; }
#turn { position: absolute; inset: 8px 8px auto; text-align: center; text-shadow: 0 1px 4px #000; }
#sticks {
  position: absolute; inset: auto 8px 8px; display: flex; justify-content: space-between; opacity: .75; pointer-events: none;
}
.stick {
  display: grid; place-items: center; width: 104px; aspect-ratio: 1; border-radius: 50%; touch-action: none;
  pointer-events: auto; background: rgb(31 34 40 / .7);
}
.knob { display: grid; place-items: center; width: 46%; aspect-ratio: 1; border-radius: 50%; background: #2c3038; font-size: .75em; }
.stick.held .knob { background: var(--realtime-engine-accent, #ffb454); color: #241500; }
`;

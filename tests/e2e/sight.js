/** Runs in each page before its own scripts: reads the picture that the page shows, scaled to 96x54. */
(() => {
  const [WIDTH, HEIGHT] = [96, 54];
  const canvas = new OffscreenCanvas(WIDTH, HEIGHT);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const kept = {};
  let drawn = false;
  const sight = (window.sight = { frames: 0 });
  const nextFrame = () => new Promise(requestAnimationFrame);

  const shown = () => ["video", "canvas", "image"].map((id) => document.getElementById(id)).find((element) => !element.hidden);

  const watched = new WeakSet();

  /** Counts the frames of an element from its first use on; those of a canvas are counted as they are drawn. */
  function watch(source) {
    if (watched.has(source)) return;
    watched.add(source);
    const count = () => {
      sight.frames += 1;
      source.requestVideoFrameCallback(count);
    };
    if (source instanceof HTMLVideoElement) source.requestVideoFrameCallback(count);
    else source.addEventListener("load", () => (sight.frames += 1));
  }

  function grab() {
    const embedded = document.querySelector("realtime-engine");
    const source = embedded ? embedded.session?.media : shown();
    if (!(source?.videoWidth || source?.naturalWidth || (source instanceof HTMLCanvasElement && drawn))) return null;
    watch(source);
    context.drawImage(source, 0, 0, WIDTH, HEIGHT);
    return context.getImageData(0, 0, WIDTH, HEIGHT).data.filter((_value, index) => index % 4 < 3);
  }

  /** The picture, once there is one. */
  async function read() {
    for (;;) {
      const picture = grab();
      if (picture) return picture;
      await nextFrame();
    }
  }

  /** Differences per channel, 0 to 255. What moves in a small part of the picture does not touch the median. */
  function differences(first, second) {
    const sorted = first.map((value, index) => Math.abs(value - second[index])).sort();
    return { median: sorted[sorted.length >> 1], mean: sorted.reduce((sum, value) => sum + value, 0) / sorted.length };
  }

  /** Keeps the picture as it is now. */
  sight.keep = async (name) => void (kept[name] = await read());

  sight.pixels = async () => Array.from(await read());

  /** Resolves when `measure` of the difference from the stored picture is in the range, or rejects after `timeout` ms. */
  sight.until = async ({ name, measure, least = 0, most = 255, timeout }) => {
    for (const end = performance.now() + timeout; ; await nextFrame()) {
      const difference = differences(kept[name], await read())[measure];
      if (difference >= least && difference <= most) return difference;
      if (performance.now() > end) {
        throw new Error(`${measure} difference to "${name}" is ${difference}, not ${least} to ${most}`);
      }
    }
  };

  /** Resolves when `frames` new frames in a row are equal, except for movement in a small part of them. */
  sight.untilStill = async ({ frames, most, timeout }) => {
    let [first, since] = [await read(), sight.frames];
    for (const end = performance.now() + timeout; ; await nextFrame()) {
      const now = await read();
      if (differences(first, now).median > most) [first, since] = [now, sight.frames];
      else if (sight.frames - since >= frames) return;
      if (performance.now() > end) throw new Error(`the picture still moves, or no ${frames} frames came`);
    }
  };

  const { drawImage } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.drawImage = function (...given) {
    drawn = true;
    sight.frames += 1;
    return drawImage.apply(this, given);
  };
})();

/** Injected into the page that is measured: reads the barcode of each frame shown and answers key presses. */
({ codec }) => {
  const [COLUMNS, SIDE, CELL] = [10, 64, 4];
  const canvas = new OffscreenCanvas(COLUMNS * CELL, 2 * CELL);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const patience = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds, null));
  const probe = (window.probe = { frames: 0, misread: 0, pressed: 0, answer: Promise.resolve(null) });
  let waiting = null;

  function read(source) {
    context.drawImage(source, 0, 0, COLUMNS * SIDE, 2 * SIDE, 0, 0, canvas.width, canvas.height);
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    const green = (column, row) => data[4 * ((row * CELL + CELL / 2) * canvas.width + column * CELL + CELL / 2) + 1];
    const middle = (green(0, 0) + green(1, 0)) / 2;
    let number = 0;
    for (let column = 0; column < COLUMNS; column += 1) {
      const [upper, lower] = [green(column, 0) > middle, green(column, 1) > middle];
      if (upper === lower) return null;
      if (column > 1) number = 2 * number + upper;
    }
    return number;
  }

  function shown(number, time) {
    probe.frames += 1;
    if (number === null) probe.misread += 1;
    else if (waiting && ((number - waiting.number) & 255) < 128) {
      waiting.resolve(time - waiting.time);
      waiting = null;
    }
  }

  function press(event) {
    if (event.code !== "KeyW" || event.repeat) return;
    probe.pressed += 1;
    const answered = new Promise((resolve) => {
      waiting = { number: probe.pressed, time: event.timeStamp, resolve };
    });
    probe.answer = Promise.race([answered, patience(2000)]);
  }

  function watchVideo(video) {
    const next = () =>
      video.requestVideoFrameCallback((_now, { presentationTime }) => {
        shown(read(video), presentationTime);
        next();
      });
    next();
  }

  function watchImage(image) {
    image.addEventListener("load", () => {
      const number = read(image);
      requestAnimationFrame(() => shown(number, performance.now()));
    });
  }

  const { drawImage } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.drawImage = function (...given) {
    drawImage.apply(this, given);
    const number = read(this.canvas);
    requestAnimationFrame(() => shown(number, performance.now()));
  };

  const { addTransceiver } = RTCPeerConnection.prototype;
  RTCPeerConnection.prototype.addTransceiver = function (...given) {
    const transceiver = addTransceiver.apply(this, given);
    const known = RTCRtpReceiver.getCapabilities("video").codecs;
    transceiver.setCodecPreferences(known.filter(({ mimeType }) => [`video/${codec}`, "video/rtx"].includes(mimeType)));
    return transceiver;
  };
  addEventListener("keydown", press, true);
  addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("video").forEach(watchVideo);
    document.querySelectorAll("img").forEach(watchImage);
  });
}

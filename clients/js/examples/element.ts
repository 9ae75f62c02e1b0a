/** Adds the element by a program, and shows its state in the title of the page. */

import "realtime-engine/element";

const element = document.createElement("realtime-engine");
element.setAttribute("src", "http://127.0.0.1:8000/");
element.context = { seed: 7 };
element.addEventListener("state", ({ detail }) => {
  document.title = detail.state;
});
document.body.append(element);
element.play();

// What the console does beyond plain pages: live matches, and refusals in their places.
"use strict";

(() => {
  function follow(live) {
    const list = live.querySelector("[data-cards]");
    const state = live.querySelector(".state");
    const source = new EventSource(live.dataset.stream);
    source.onopen = () => { state.textContent = "Live."; };
    source.onerror = () => { state.textContent = "The connection is lost; trying again …"; };
    const known = (id) => [...list.children].find((card) => card.dataset.match === id);
    source.addEventListener("retract", (event) => { known(JSON.parse(event.data).retract)?.remove(); });
    source.addEventListener("match", (event) => {
      // The service wrote the card, and escaped every text in it.
      const card = document.createElement("template");
      card.innerHTML = JSON.parse(event.data).html.trim();
      const made = card.content.firstElementChild;
      if (known(made.dataset.match)) return;
      list.prepend(made);
      while (list.children.length > 200) list.lastElementChild.remove();
    });
    addEventListener("pagehide", () => source.close());
  }

  // Refusals are parts of pages, too.
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.xhr.status >= 400 && (event.detail.xhr.getResponseHeader("Content-Type") || "").startsWith("text/html")) {
      const told = new DOMParser().parseFromString(event.detail.serverResponse, "text/html").querySelector(".problem");
      if (told) {
        event.detail.serverResponse = told.outerHTML;
        event.detail.shouldSwap = true;
      }
    }
  });
  document.querySelectorAll("[data-stream]").forEach(follow);
})();

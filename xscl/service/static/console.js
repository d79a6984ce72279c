// What the console does beyond plain pages: live matches, insertion of names, and the mark of a fault in the editor.
"use strict";

(() => {
  function follow(live) {
    const list = live.querySelector("[data-cards]");
    const state = live.querySelector(".state");
    const source = new EventSource(live.dataset.stream);
    source.onopen = () => { state.textContent = "Live."; };
    source.onerror = () => { state.textContent = "The connection is lost; trying again …"; };
    source.addEventListener("match", (event) => {
      // The service wrote the card, and escaped every text in it.
      const card = document.createElement("template");
      card.innerHTML = JSON.parse(event.data).html.trim();
      const made = card.content.firstElementChild;
      for (const known of list.children) {
        if (known.dataset.match === made.dataset.match) return;
      }
      list.prepend(made);
      while (list.children.length > 200) list.lastElementChild.remove();
    });
    addEventListener("pagehide", () => source.close());
  }

  function insert(text) {
    const area = document.getElementById("text");
    area.focus();
    area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
    area.dispatchEvent(new Event("input", { bubbles: true }));
  }

  function fault() {
    return document.querySelector("#check .fault");
  }

  function mark() {
    const area = document.getElementById("text");
    const under = document.querySelector(".under");
    if (!area || !under) return;
    const found = fault();
    area.setAttribute("aria-invalid", found ? "true" : "false");
    under.replaceChildren();
    if (found && found.dataset.end > found.dataset.start) {
      // Places count characters as the service does, one for each code point.
      const text = Array.from(area.value);
      const [start, end] = [Number(found.dataset.start), Number(found.dataset.end)];
      const place = document.createElement("mark");
      place.textContent = text.slice(start, end).join("").trim() ? text.slice(start, end).join("") : "\u00a0";
      under.append(text.slice(0, start).join(""), place, text.slice(end).join("") + "\n");
      under.scrollTop = area.scrollTop;
      under.scrollLeft = area.scrollLeft;
    }
  }

  document.addEventListener("click", (event) => {
    const offered = event.target.closest("[data-insert]");
    if (offered) insert(offered.dataset.insert);
    if (event.target.closest("[data-goto]") && fault()) {
      const area = document.getElementById("text");
      const units = (count) => Array.from(area.value).slice(0, count).join("").length;
      area.focus();
      area.setSelectionRange(units(Number(fault().dataset.start)), units(Number(fault().dataset.end)));
    }
  });
  document.addEventListener("input", (event) => {
    // The mark belongs to the text that was checked.
    if (event.target.id === "text") document.querySelector(".under").replaceChildren();
  });
  document.addEventListener("scroll", (event) => {
    if (event.target.id === "text") {
      const under = document.querySelector(".under");
      under.scrollTop = event.target.scrollTop;
      under.scrollLeft = event.target.scrollLeft;
    }
  }, true);
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target.id === "check") mark();
  });
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
  mark();
})();

// The editor of queries: CodeMirror over the text field of the form, which stays what is sent.
"use strict";

(() => {
  const area = document.getElementById("text");
  const place = document.querySelector("[data-editor]");
  if (!area || !place || typeof CM === "undefined") return;

  const WORDS = ["SELECT", "FROM", "FOLLOWED BY", "JOIN", "AND", "ONCE", "MAXWINDOW", "UNBOUNDED", "IN", "PUBLISH", "STARTING ALL", "STARTING NOW", "CREATE QUERY", "DECLARE NAMESPACE", "AS"];
  const FUNCTIONS = ["contains", "contains-word", "starts-with", "normalize-space", "string-length", "lower", "count", "not", "url"];
  const KEYWORD = /^(select|from|followed|by|join|and|or|once|maxwindow|unbounded|in|publish|starting|all|now|create|standing|query|drop|declare|namespace|as|not)$/i;
  const NAME = /[\p{L}_][\p{L}\p{N}_]*(?:[-.]+[\p{L}\p{N}_]+)*'*/u;
  // A channel stands at the beginning of a block: behind these, and before a path, a binding or a condition.
  const BLOCK = /(?:^|[({};]|\b(?:from|by|join|as)\s|\}\s*)\s*([\p{L}_][\p{L}\p{N}_]*(?:[-.]+[\p{L}\p{N}_]+)*)\s*(?=->|\/|\[)/giu;

  // -- highlighting ------------------------------------------------------------------------------------------

  function token(stream, state) {
    if (state.comment) {
      while (!stream.eol()) {
        if (stream.match("(:")) state.comment += 1;
        else if (stream.match(":)")) {
          state.comment -= 1;
          if (!state.comment) break;
        } else stream.next();
      }
      return "comment";
    }
    const first = stream.sol();
    if (stream.eatSpace()) {
      if (stream.match(/^--.*/)) return "comment";
      return null;
    }
    if (first && stream.match(/^--.*/)) return "comment";
    if (stream.match("(:")) {
      state.comment = 1;
      return "comment";
    }
    if (stream.match(/^"(?:[^"]|"")*"?/) || stream.match(/^'(?:[^']|'')*'?/)) return "string";
    if (stream.match("->")) {
      state.binding = true;
      return "operator";
    }
    if (stream.match(/^\d+(?:\.\d+)?(?:\s*(?:us|ms|s|min|h|d|w|days?|hours?|minutes?|seconds?|weeks?)\b)?/)) return "number";
    if (stream.match(/^(?:!=|<=|>=|[=<>+*])/)) return "operator";
    if (stream.match(NAME)) {
      const word = stream.current();
      const binding = state.binding;
      state.binding = false;
      if (binding) return "variableName";
      if (stream.peek() === "(" && FUNCTIONS.includes(word)) return "keyword";
      if (!state.depth && KEYWORD.test(word)) return "keyword";
      if (/^(?:and|or|not)$/i.test(word)) return "keyword";
      if (!state.depth && /^\s*(?:->|\/|\[)/.test(stream.string.slice(stream.pos)) && !/[/@:]$/.test(stream.string.slice(0, stream.start))) return "typeName";
      return state.braces ? "variableName" : "propertyName";
    }
    const sign = stream.next();
    if (sign === "[") state.depth += 1;
    if (sign === "]") state.depth = Math.max(0, state.depth - 1);
    if (sign === "{") state.braces += 1;
    if (sign === "}") state.braces = Math.max(0, state.braces - 1);
    return null;
  }

  const xscl = CM.StreamLanguage.define({
    name: "xscl",
    startState: () => ({ comment: 0, depth: 0, braces: 0, binding: false }),
    token,
  });

  // -- completion --------------------------------------------------------------------------------------------

  const known = new Map();

  function pathsOf(channel) {
    if (!known.has(channel)) {
      const asked = fetch(`/editor/paths?channel=${encodeURIComponent(channel)}`).then((answer) => (answer.ok ? answer.json() : []));
      known.set(channel, asked.catch(() => []));
    }
    return known.get(channel);
  }

  function channels() {
    return Array.from(document.querySelectorAll("#channels option"), (each) => each.value);
  }

  // The last name of the path whose condition is open at the end of a text; "" at the path of a block itself.
  function above(text) {
    let depth = 0;
    for (let at = text.length - 1; at >= 0; at -= 1) {
      if (text[at] === "]") depth += 1;
      if (text[at] === "[" && depth) depth -= 1;
      else if (text[at] === "[") {
        let before = text.slice(0, at);
        for (let cut = ""; cut !== before; ) {
          cut = before;
          before = before.replace(/\[[^[\]]*\]\s*$/u, "").replace(/\s*(?:->|\bas\s)\s*[\p{L}\p{N}_'.-]+\s*$/iu, "");
        }
        return (before.match(/([\p{L}\p{N}_.:*@-]+)\s*$/u) || ["", ""])[1];
      }
    }
    return "";
  }

  function named(paths, step, anywhere) {
    const found = new Map();
    for (const path of paths) {
      const steps = path.split("/").slice(1);
      const begins = anywhere ? steps.map((_, number) => number) : [];
      if (!anywhere && step === "") begins.push(0);
      // Conditions behind a bare channel speak of the root element.
      if (!anywhere && step === null) begins.push(1);
      if (!anywhere && step) steps.forEach((each, number) => { if (each === step && number + 1 < steps.length) begins.push(number + 1); });
      for (const begin of begins) {
        const label = steps.slice(begin).join("/");
        if (label && !found.has(label)) found.set(label, path);
      }
    }
    return Array.from(found, ([label, path]) => ({ label, type: label.includes("@") ? "attribute" : "element", detail: path === `/${label}` ? "" : path }));
  }

  async function complete(context) {
    const before = context.state.sliceDoc(0, context.pos);
    const word = context.matchBefore(/[@*\p{L}\p{N}_:][\p{L}\p{N}_.:*@/-]*|[@]/u);
    const path = context.matchBefore(/(?:\.?\/\/?|\[|@)[@*\p{L}\p{N}_.:/-]*/u);
    const braces = before.lastIndexOf("{") > before.lastIndexOf("}");
    if (path && !braces) {
      const blocks = Array.from(before.matchAll(BLOCK));
      const channel = blocks.length ? blocks[blocks.length - 1][1] : "";
      if (!channel) return null;
      const [sign] = path.text.match(/^\[?(?:\.?\/\/?)?/u);
      const step = above(before);
      const paths = await pathsOf(channel);
      let options = named(paths, step === channel ? null : step, sign.endsWith("//"));
      if (!options.length) options = named(paths, "", true);
      const from = path.from + sign.length;
      return { from, options: options.slice(0, 300), validFor: /^[@*\p{L}\p{N}_.:/-]*$/u };
    }
    if (!word && !context.explicit) return null;
    const from = word ? word.from : context.pos;
    const options = [];
    if (braces) {
      const bound = new Set(Array.from(context.state.doc.toString().matchAll(/(?:->|\bas\s)\s*([\p{L}_][\p{L}\p{N}_'.-]*)/giu), (each) => each[1]));
      for (const name of bound) options.push({ label: name, type: "variable", detail: "variable", boost: 2 });
    } else {
      for (const name of channels()) options.push({ label: name, type: "class", detail: "channel", boost: 2 });
    }
    for (const each of WORDS) options.push({ label: each, type: "keyword" });
    for (const each of FUNCTIONS) options.push({ label: each, type: "function" });
    return { from, options, validFor: /^[\p{L}\p{N}_'.-]*$/u };
  }

  // -- the editor and its form -------------------------------------------------------------------------------

  const described = { "aria-labelledby": "text-label", "aria-describedby": "keys check", "aria-multiline": "true", spellcheck: "false", autocapitalize: "off" };
  const view = new CM.EditorView({
    parent: place,
    state: CM.EditorState.create({
      doc: area.value,
      extensions: [
        CM.EditorView.cspNonce.of(place.dataset.nonce),
        CM.history(),
        xscl,
        CM.syntaxHighlighting(CM.classHighlighter),
        CM.bracketMatching(),
        CM.autocompletion({ override: [complete], icons: false }),
        CM.EditorView.lineWrapping,
        CM.EditorView.contentAttributes.of(() => ({ ...described, "aria-invalid": fault() ? "true" : "false" })),
        CM.keymap.of([...CM.completionKeymap, ...CM.defaultKeymap, ...CM.historyKeymap, ...CM.lintKeymap]),
        CM.EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          area.value = update.state.doc.toString();
          area.dispatchEvent(new Event("input", { bubbles: true }));
        }),
      ],
    }),
  });
  area.hidden = true;
  document.getElementById("keys").hidden = false;
  document.getElementById("text-label").addEventListener("click", () => view.focus());

  function fault() {
    return document.querySelector("#check .fault");
  }

  // Places count characters as the service does, one for each code point.
  function span(found) {
    const text = Array.from(view.state.doc.toString());
    const units = (count) => text.slice(0, count).join("").length;
    const [from, to] = [units(Number(found.dataset.start)), units(Number(found.dataset.end))];
    return from < to ? [from, to] : [Math.max(0, from - 1), from];
  }

  function mark() {
    const found = fault();
    const told = [];
    // The mark belongs to the text that was checked.
    if (found && found.dataset.end > found.dataset.start) {
      const [from, to] = span(found);
      told.push({ from, to, severity: "error", message: found.querySelector(".problem p").textContent });
    }
    view.dispatch(CM.setDiagnostics(view.state, told));
  }

  document.addEventListener("click", (event) => {
    const offered = event.target.closest("[data-insert]");
    if (offered) {
      view.dispatch(view.state.replaceSelection(offered.dataset.insert));
      view.focus();
    }
    if (event.target.closest("[data-goto]") && fault()) {
      const [anchor, head] = span(fault());
      view.dispatch({ selection: { anchor, head }, scrollIntoView: true });
      view.focus();
    }
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target.id === "check") mark();
  });
  mark();
})();

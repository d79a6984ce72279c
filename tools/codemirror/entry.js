// The parts of CodeMirror that xscl/service/static/editor.js uses.
export { EditorState } from "@codemirror/state";
export { EditorView, keymap } from "@codemirror/view";
export { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
export { StreamLanguage, bracketMatching, syntaxHighlighting } from "@codemirror/language";
export { autocompletion, completionKeymap, startCompletion } from "@codemirror/autocomplete";
export { lintKeymap, setDiagnostics } from "@codemirror/lint";
export { classHighlighter } from "@lezer/highlight";

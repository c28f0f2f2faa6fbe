"use strict";
/* Excerpts: lines of logs in a box of their own, numbered, the evidence marked by a sign, a border and a word.
 *
 * Lines come from training: they may be 100,000 characters long. Each is cut, with a button that shows all of it; which
 * were asked for is kept in the given set. `Excerpts.box` builds; whoever shows it listens for [data-whole].
 */
const Excerpts = (() => {
  const { el, muted } = Draw;
  const MOST_CHARACTERS = 1200;
  const WHOLE_CHARACTERS = 200000;

  const MOST_PATH = 56;

  /** A frame of a stack whose path is long without the middle of that: the file and the package say enough. */
  const shortFrame = (text) =>
    text.replace(/^(\s*File ")([^"]+)(")/, (_all, before, path, after) =>
      `${before}${Format.middle(path, MOST_PATH)}${after}`);

  function line(excerpt, given, index, whole, paths) {
    const text = paths ? shortFrame(given) : given;
    const number = excerpt.first_line === null || excerpt.first_line === undefined ? null : excerpt.first_line + index;
    const marked = excerpt.marked === index;
    const key = `${excerpt.file}:${number ?? `+${index}`}`;
    const over = text.length - MOST_CHARACTERS;
    const cut = over > 200 && !whole.has(key);
    const shown = cut ? text.slice(0, MOST_CHARACTERS) : text.slice(0, WHOLE_CHARACTERS);
    return el("div", { class: marked ? "line marked" : "line", "data-key": key },
      el("span", { class: "n" }, marked && el("span", { class: "mark", "aria-hidden": "true" }, "▶"), number ?? "·"),
      el("span", { class: "t", title: text !== given && Format.clip(given.trim(), 1000) },
        marked && el("span", { class: "unseen" }, "This line shows it: "), shown,
        cut && Draw.button(`… ${Format.integer(over)} more characters`, null, { "data-whole": key })));
  }

  /** Where an excerpt stands, how old and how large its file is. */
  function about(excerpt, now) {
    const last = typeof excerpt.first_line === "number" ? excerpt.first_line + excerpt.lines.length - 1 : null;
    const many = excerpt.lines.length, first = excerpt.first_line;
    return [last === null || many === 0 ? Format.count(many, "line") : many === 1 ? `line ${first}` : `lines ${first} to ${last}`,
      typeof excerpt.size_bytes === "number" && `of ${Format.bytes(excerpt.size_bytes)}`,
      excerpt.modified && `written ${Format.ago(excerpt.modified, now)}`].filter(Boolean).join(", ");
  }

  /** The box of an excerpt; `name` is what it is, for screen readers, `follow` keeps its end in sight. */
  function box(excerpt, { name, now, whole, follow = false, facts = [], paths = false }) {
    const label = { tabindex: "0", role: "region", "aria-label": `${name}, ${excerpt.file}` };
    return el("div", { class: "excerpt", "data-key": `${name}:${excerpt.file}:${excerpt.first_line ?? ""}` },
      el("p", { class: "excerpt-head" }, Draw.path(excerpt.file), facts.map((fact) => [" · ", fact]), " · ",
        el("span", { class: "muted" }, about(excerpt, now))),
      excerpt.lines.length === 0 ? muted(!excerpt.note && "There is no text in it.")
        : el("div", { class: "log", ...label, "data-follow": follow },
          excerpt.lines.map((text, index) => line(excerpt, String(text), index, whole, paths))),
      excerpt.note && muted(excerpt.note));
  }

  /** Text of many lines as an excerpt from its first line on. */
  function ofText(file, text) {
    return { file, lines: text.replace(/\n+$/, "").split("\n"), first_line: 1, marked: null, modified: null,
      size_bytes: null, note: null };
  }

  return Object.freeze({ box, ofText });
})();

"use strict";
/* Acknowledging: says who looks after a run that needs attention, and lets people say so.
 *
 *   const known = Acknowledging.make(id)
 *   known.element                 hidden where there is nothing to acknowledge, or nothing may be changed
 *   known.update(doc)             with each answer about the run
 */
const Acknowledging = (() => {
  const { el } = Draw;

  function make(id) {
    const note = el("input", { type: "text", name: "note", maxlength: 200, autocomplete: "off",
      placeholder: "bad node, moving it" });
    const by = Silencing.nameInput();
    const said = el("p", { class: "said", role: "status", "aria-live": "polite" });
    const form = el("form", { class: "silence-form", autocomplete: "off", on: { submit: acknowledge } },
      Silencing.field("Note (optional)", note), Silencing.field("Your name (optional)", by),
      el("button", { type: "submit", class: "quiet" }, "Acknowledge"));
    const undo = el("button", { type: "button", class: "quiet", on: { click: withdraw } }, "Withdraw the acknowledgement");
    const summary = el("summary", {}, "Acknowledge this run");
    const element = el("details", { class: "acknowledging", hidden: true }, summary,
      el("p", { class: "muted" }, "Says that you look after it, until something new happens to it. That is alerted as always."),
      form, undo, said);
    const ask = Silencing.asker(form, said, show);
    let row = null, seen = null, conditions = [];

    function show() {
      const held = row !== null && row.acknowledged !== null;
      const may = row !== null && seen !== null && !Data.embedded && Data.mayOperate;
      element.hidden = !may || !(held || Rows.needs(row));
      undo.hidden = !held;
    }

    function acknowledge(event) {
      event.preventDefault();
      ask({ acknowledge: id, transition: seen, conditions, note: note.value, by: by.value }, "Acknowledging …", (answer) => {
        note.value = "";
        row = { ...row, acknowledged: answer.acknowledged };
        return `Acknowledged by ${Format.clip(answer.acknowledged.by, 100)}.`;
      });
    }

    function withdraw() {
      ask({ withdraw: id }, "Withdrawing …", () => {
        row = { ...row, acknowledged: null };
        // Its button goes.
        summary.focus();
        return "The acknowledgement is withdrawn.";
      });
    }

    return {
      element,
      update(doc) {
        [row, seen, conditions] = [doc.run, doc.transitions, Object.keys(doc.conditions ?? {})];
        show();
      },
    };
  }

  return Object.freeze({ make });
})();

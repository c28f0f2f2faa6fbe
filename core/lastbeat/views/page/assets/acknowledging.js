"use strict";
/* Acknowledging: says who looks after a run that needs attention, and lets people say so.
 *
 *   const known = Acknowledging.make(id)
 *   known.element                 hidden where there is nothing to acknowledge, or nothing may be changed
 *   known.update(doc)             with each answer about the run
 */
const Acknowledging = (() => {
  const { button } = Draw;

  function make(id) {
    const note = Silencing.textInput("note", "bad node, moving it"), by = Silencing.nameInput();
    const undo = button("Withdraw the acknowledgement", withdraw);
    const { element, summary, ask } = Silencing.panel({ name: "acknowledging", words: "Acknowledge this run", submit: acknowledge,
      show, after: undo, lead: "Says that you look after it, until something new happens to it. That is alerted as always.",
      fields: [Silencing.field("Note (optional)", note), Silencing.field("Your name (optional)", by),
        button("Acknowledge", null, { type: "submit" })] });
    let row = null, seen = null, conditions = [];

    function show() {
      const held = row !== null && row.acknowledged !== null;
      const may = row !== null && seen !== null && !Data.embedded && Data.mayOperate;
      element.hidden = !may || !(held || Rows.needs(row));
      undo.hidden = !held;
    }

    function acknowledge() {
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

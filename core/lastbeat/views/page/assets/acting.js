"use strict";
/* Acting: ends a run, or restarts its job. The server says first what that would do; then people confirm it.
 *
 *   const acts = Acting.make(id)
 *   acts.element                  hidden unless this browser was let in by the token to operate
 *   acts.update(doc)              with each answer about the run
 */
const Acting = (() => {
  const { el, put, setText, button } = Draw;
  const OVER = ["SUCCEEDED", "CANCELLED"];

  function make(id) {
    const why = Silencing.textInput("why", "wrong data"), whyField = Silencing.field("Why (optional)", why);
    const by = Silencing.nameInput(), outlook = el("ul", { class: "plain" });
    const stop = button("Stop …", () => ask("stop")), again = button("Restart …", () => ask("restart"));
    const confirm = button("Yes", null, { type: "submit" });
    const { element, form, summary, said, ask: send } = Silencing.panel({ name: "acting", words: "Stop or restart", submit: act, show,
      lead: "You are told first what happens. The run's history keeps who did it.", before: el("p", {}, stop, " ", again),
      fields: [outlook, whyField, Silencing.field("Your name (optional)", by), confirm, button("Cancel", leave)] });
    form.hidden = true;
    let doc = null, asked = null;

    function show() {
      const job = doc?.job ?? null, over = OVER.includes(doc?.run.status);
      const waits = Boolean(job?.next);
      setText(stop, waits ? "Do not restart …" : "Stop …");
      setText(again, waits ? "Restart now …" : "Restart …");
      stop.hidden = !waits && (over || (doc?.run.status === "FAILED" && (job === null || job.over)));
      again.hidden = job === null || (over && !waits);
      form.hidden = asked === null;
      element.hidden = doc === null || Data.embedded || !Data.mayOperate || (stop.hidden && again.hidden);
    }

    function ask(what) {
      send({ [what]: id }, "Looking …", (answer) => {
        asked = { what, seen: answer.seen };
        put(outlook, answer.outlook.map((each) => el("li", {}, Format.clip(each, 500))));
        setText(confirm, what === "restart" ? "Yes, restart it" : doc?.job?.next ? "Yes, do not restart it" : "Yes, stop it");
        whyField.hidden = what === "restart";
        form.hidden = false;
        confirm.focus();
        return "Please confirm.";
      });
    }

    function leave() {
      asked = null;
      setText(said, "");
      show();
      summary.focus();
    }

    function act() {
      if (asked === null) return;
      const reason = asked.what === "stop" ? { why: why.value } : {};
      send({ [asked.what]: id, seen: asked.seen, ...reason, by: by.value }, "Asking …", (answer) => {
        asked = null;
        why.value = "";
        // Its form goes.
        summary.focus();
        return answer.done.map((each) => Format.clip(each, 500)).join(" ");
      });
    }

    return {
      element,
      update(next) {
        doc = next;
        show();
      },
    };
  }

  return Object.freeze({ make });
})();

"use strict";
/* Acting: ends a run, or restarts its job. The server says first what that would do; then people confirm it.
 *
 *   const acts = Acting.make(id)
 *   acts.element                  hidden unless this browser was let in by the token to operate
 *   acts.update(doc)              with each answer about the run
 */
const Acting = (() => {
  const { el, setText } = Draw;
  const OVER = ["SUCCEEDED", "CANCELLED"];

  function make(id) {
    const why = el("input", { type: "text", name: "why", maxlength: 200, autocomplete: "off", placeholder: "wrong data" });
    const by = Silencing.nameInput();
    const whyField = Silencing.field("Why (optional)", why);
    const outlook = el("ul", { class: "plain" });
    const said = el("p", { class: "said", role: "status", "aria-live": "polite" });
    const stop = el("button", { type: "button", class: "quiet", on: { click: () => ask("stop") } }, "Stop …");
    const again = el("button", { type: "button", class: "quiet", on: { click: () => ask("restart") } }, "Restart …");
    const confirm = el("button", { type: "submit", class: "quiet" }, "Yes");
    const cancel = el("button", { type: "button", class: "quiet", on: { click: leave } }, "Cancel");
    const form = el("form", { class: "silence-form", autocomplete: "off", hidden: true, on: { submit: act } },
      outlook, whyField, Silencing.field("Your name (optional)", by), confirm, cancel);
    const summary = el("summary", {}, "Stop or restart");
    const element = el("details", { class: "acting", hidden: true }, summary,
      el("p", { class: "muted" }, "You are told first what happens. The run's history keeps who did it."),
      el("p", {}, stop, " ", again), form, said);
    const send = Silencing.asker(form, said, show);
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
        outlook.replaceChildren(...answer.outlook.map((each) => el("li", {}, Format.clip(each, 500))));
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

    function act(event) {
      event.preventDefault();
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

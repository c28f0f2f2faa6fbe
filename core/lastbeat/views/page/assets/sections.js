"use strict";
/* Sections: what the view of one run is made of, from what needs people down to where its files lie. */
const Sections = (() => {
  const { el, muted } = Draw;
  const { hangs } = Account;
  const failed = (doc) => doc.run.status === "FAILED";

  function stacks(doc, now, whole) {
    return [
      muted("Each thread, most recent call last: the last line of a thread is where it is."),
      Excerpts.box(doc.stacks, { name: "Stacks", now, whole, paths: true }),
    ];
  }

  const errorText = (doc, now, whole) =>
    Excerpts.box(Excerpts.ofText("_error", doc.error_text), { name: "The failure sentinel", now, whole });

  /** Of a run that is over these say no more than how it last was: they are there on demand. */
  function background(doc, words, nodes) {
    const over = doc.run.status === "FAILED" || doc.run.status === "SUCCEEDED";
    return over && nodes !== null ? [el("details", { class: "expand" }, el("summary", {}, words), nodes)] : nodes;
  }

  function log(doc, now, whole) {
    const rest = doc.account?.log ?? (doc.log ? [doc.log] : []), last = rest.length - 1;
    return [
      !doc.log ? muted("No log was read.")
        : rest.length === 0 ? muted("The end of the log is shown above, as evidence.")
          : rest.map((each, index) => Excerpts.box(each, { name: "End of the log", now, whole, follow: index === last })),
      Records.logs(doc, now),
    ];
  }

  /** Each section: its id, its heading and what it shows; null leaves it out. Curves are a thing of their own. */
  const ALL = [
    ["why", "Cause", (doc, now, view) => Account.cause(doc, now, view.whole)],
    ["hangs", "Where it hangs", (doc, now, view) => (hangs(doc) ? stacks(doc, now, view.whole) : null)],
    ["progress", "Progress", (doc, now) => Progress.progress(doc, now)],
    ["curves", "Curves", null],
    ["config", "Configuration", (doc) => Records.config(doc)],
    ["timeline", "Timeline", (doc) => Timeline.build(doc)],
    ["goodput", "Time spent", (doc, now) => Goodput.build(doc, now)],
    ["ranks", "Ranks", (doc, now, view) => Ranks.build(doc, view.rank)],
    ["beats", "Heartbeats", (doc, now) => background(doc, "The last heartbeats", Records.beats(doc, now))],
    ["resources", "Resources", (doc) => background(doc, "As they last were", Progress.resources(doc))],
    ["job", "Job", (doc, now) => Records.job(doc, now)],
    ["alerts", "Alerts", (doc, now) => Records.alerts(doc, now)],
    ["transitions", "Transitions", (doc, now) => Records.transitions(doc, now)],
    ["log", "Log", (doc, now, view) => log(doc, now, view.whole)],
    ["stacks", "Stacks", (doc, now, view) => (doc.stacks && !hangs(doc) ? stacks(doc, now, view.whole) : null)],
    ["error-earlier", "What _error says", (doc, now, view) => (!failed(doc) && doc.error_text ? errorText(doc, now, view.whole) : null)],
    ["files", "Files", (doc) => Records.files(doc)],
    ["notes", "Notes", (doc) => (doc.notes?.length > 0 ? Draw.list(doc.notes) : null)],
  ];

  return Object.freeze({ ALL });
})();

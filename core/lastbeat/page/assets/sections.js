"use strict";
/* Sections: what the view of one run is made of, from what needs people down to where its files lie. */
const Sections = (() => {
  const { el } = Draw;
  const HANGS = /stall|progress_stale/;

  /** Where it hangs matters most while it hangs. */
  const hangs = (doc) =>
    doc.stacks !== null &&
    doc.stacks !== undefined &&
    (doc.run.status === "TIMED_OUT" ||
      [...(doc.run.conditions ?? []), ...Object.keys(doc.conditions ?? {})].some((name) => HANGS.test(name)));
  const failed = (doc) => doc.run.status === "FAILED";

  function stacks(doc, now, whole) {
    return [
      el("p", { class: "muted" }, "Each thread, most recent call last: the last line of a thread is where it is."),
      Excerpts.box(doc.stacks, { name: "Stacks", now, whole }),
    ];
  }

  function errorText(doc, now, whole) {
    return [Excerpts.box(Excerpts.ofText("_error", doc.error_text), { name: "The failure sentinel", now, whole })];
  }

  function log(doc, now, whole) {
    const tail = doc.log
      ? Excerpts.box(doc.log, { name: "End of the log", now, whole, follow: true })
      : el("p", { class: "muted" }, "No log was read.");
    return [tail, Records.logs(doc, now)];
  }

  /** Each section: its id, its heading and what it shows; null leaves it out. Curves are a thing of their own. */
  const ALL = [
    ["why", "Cause", (doc, now, view) => Account.cause(doc, now, view.whole)],
    [
      "error",
      "What _error says",
      (doc, now, view) => (failed(doc) && doc.error_text ? errorText(doc, now, view.whole) : null),
    ],
    ["hangs", "Where it hangs", (doc, now, view) => (hangs(doc) ? stacks(doc, now, view.whole) : null)],
    ["progress", "Progress", (doc, now) => Progress.progress(doc, now)],
    ["curves", "Curves", null],
    ["timeline", "Timeline", (doc) => Timeline.build(doc)],
    ["ranks", "Ranks", (doc, now, view) => Ranks.build(doc, view.rank)],
    ["beats", "Heartbeats", (doc, now) => Records.beats(doc, now)],
    ["resources", "Resources", (doc) => Progress.resources(doc)],
    ["alerts", "Alerts", (doc, now) => Records.alerts(doc, now)],
    ["transitions", "Transitions", (doc, now) => Records.transitions(doc, now)],
    ["log", "Log", (doc, now, view) => log(doc, now, view.whole)],
    ["stacks", "Stacks", (doc, now, view) => (doc.stacks && !hangs(doc) ? stacks(doc, now, view.whole) : null)],
    [
      "error-earlier",
      "What _error says",
      (doc, now, view) => (!failed(doc) && doc.error_text ? errorText(doc, now, view.whole) : null),
    ],
    ["files", "Files", (doc) => Records.files(doc)],
    [
      "notes",
      "Notes",
      (doc) =>
        doc.notes?.length > 0
          ? [
              el(
                "ul",
                { class: "plain" },
                doc.notes.map((note) => el("li", {}, note)),
              ),
            ]
          : null,
    ],
  ];

  return Object.freeze({ ALL });
})();

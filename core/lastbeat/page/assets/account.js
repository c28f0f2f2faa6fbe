"use strict";
/* Account: what a run is, why, and what to do about it. Each function builds the nodes of a section, or null. */
const Account = (() => {
  const { el } = Draw;
  const SURE = [
    [0.85, "sure"],
    [0.5, "likely"],
    [0, "perhaps"],
  ];
  const RESTART = new Map([
    [true, "From the last checkpoint it may well get past this."],
    [false, "Only after something was changed; as it is, it will end here again."],
    [null, "It depends on what was behind this."],
  ]);

  const some = (value) => value !== null && value !== undefined && value !== "";

  /** A moment as its age, with the time in its title. */
  function when(given, now) {
    return el("span", { title: Format.full(given) }, Format.ago(given, now));
  }

  /** Names and values beside each other; pairs without a value are left out. */
  function facts(pairs, name = "facts") {
    const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== Format.MISSING);
    return known.length === 0
      ? null
      : el(
          "dl",
          { class: name },
          known.map(([label, value]) => el("div", { "data-key": label }, el("dt", {}, label), el("dd", {}, value))),
        );
  }

  /** Sureness in a word, as alerts and `lastbeat explain` say it. */
  function sureness(confidence) {
    return typeof confidence === "number" ? SURE.find(([least]) => confidence >= least || least === 0)[1] : null;
  }

  function box(kind, lead, ...rest) {
    return el("div", { class: `note ${kind}` }, el("p", {}, el("strong", {}, lead), ...rest));
  }

  function since(run, now) {
    if (!run.since) return null;
    const lasts = run.status === "RUNNING" ? `for ${Format.age(run.since, now)}` : Format.ago(run.since, now);
    const words = ` since ${Format.time(run.since, now)}, ${lasts}`;
    return el("span", { class: "muted", title: Format.full(run.since) }, words);
  }

  /** Status and reason, since when, and all that makes them doubtful. */
  function state(doc, now) {
    const run = doc.run;
    const conditions = [...new Set([...(run.conditions ?? []), ...Object.keys(doc.conditions ?? {})])];
    return [
      el("p", { class: "state" }, Draw.statusOf(run), since(run, now)),
      some(run.reason) ? el("p", { class: "lead-reason" }, run.reason) : null,
      run.doubt ? box("doubt", "This may be out of date: ", run.doubt) : null,
      run.fault
        ? box(
            "doubt",
            "Something of it could not be read: ",
            run.fault,
            el("br", {}),
            "What stands here is as it was last read.",
          )
        : null,
      run.recorded === false
        ? el(
            "p",
            { class: "muted" },
            "No pass of the watchdog has recorded this run yet: this is what a first look says.",
          )
        : null,
      run.complete === false ? el("p", { class: "muted" }, "Something of it is still to be read.") : null,
      conditions.length > 0
        ? el(
            "ul",
            { class: "plain conditions", "aria-label": "Warnings" },
            conditions.map((name) =>
              el(
                "li",
                { "data-key": name },
                el("span", { class: "s-warning" }, el("span", { "aria-hidden": "true" }, "▲ "), el("code", {}, name)),
                some(doc.conditions?.[name]) ? ` ${doc.conditions[name]}` : null,
              ),
            ),
          )
        : null,
      facts([
        ["Last beat", run.beat_at ? when(run.beat_at, now) : "none was seen"],
        ["Attempt", Format.integer(run.attempt)],
        ["Phase", run.phase ?? null],
        ["Host", run.host ?? null],
        [
          "Alerts",
          some(doc.alerts?.pending)
            ? `${Format.integer(doc.alerts.delivered)} delivered, ${Format.integer(doc.alerts.pending)} waiting`
            : null,
        ],
        ["Seen", doc.at ? el("span", { title: Format.full(doc.at) }, Format.time(doc.at, Date.now(), true)) : null],
      ]),
    ];
  }

  function todo(doc) {
    const advice = doc.explained?.hint || doc.run.action;
    return some(advice) ? el("div", { class: "note todo" }, el("h3", {}, "What to do"), el("p", {}, advice)) : null;
  }

  /** Why: the cause with its evidence in the log around it, and what to do. */
  function cause(doc, now, whole) {
    const told = doc.explained;
    const name = told?.error_type ?? doc.run.cause;
    const troubled = doc.run.status === "FAILED" || doc.run.status === "TIMED_OUT";
    if (!some(name) && !todo(doc) && !troubled) return null;
    const sure = name === "unknown" ? null : sureness(told?.confidence);
    const line = told?.evidence ?? null;
    const where =
      line === null
        ? []
        : [
            some(line.rank) ? `rank ${line.rank}` : null,
            line.host ?? null,
            line.time ? Format.time(line.time, now, true) : null,
          ].filter((part) => part !== null);
    return [
      some(name) || !troubled ? null : el("p", {}, "No cause is known: nothing that was read says why."),
      some(name)
        ? el(
            "p",
            { class: "cause-name" },
            el("code", {}, name),
            sure === null ? null : [" ", el("span", { class: "sure" }, sure)],
            some(told?.subsystem) ? el("span", { class: "muted" }, ` · ${told.subsystem}`) : null,
            some(told?.signal) ? el("span", { class: "muted" }, " · signal ", el("code", {}, told.signal)) : null,
          )
        : null,
      todo(doc),
      told ? el("p", {}, el("strong", {}, "Restart: "), RESTART.get(told.restartable ?? null)) : null,
      evidence(doc, line, where, now, whole),
      told?.also_seen?.length > 0
        ? [
            el("h3", {}, "Also seen"),
            el(
              "ul",
              { class: "plain also" },
              told.also_seen.map((text) => el("li", {}, text)),
            ),
          ]
        : null,
    ];
  }

  /** The excerpt, or its marked line alone where the section below shows all of the file. */
  function shortened(doc) {
    const { file, lines, first_line: first, marked } = doc.evidence;
    const below = file === "_error" && some(doc.error_text) && typeof marked === "number" && lines[marked];
    if (!below) return doc.evidence;
    const number = typeof first === "number" ? first + marked : null;
    return { ...doc.evidence, lines: [lines[marked]], first_line: number, marked: 0 };
  }

  function evidence(doc, line, where, now, whole) {
    if (doc.evidence) {
      const facts = where;
      return [el("h3", {}, "Evidence"), Excerpts.box(shortened(doc), { name: "Evidence", now, whole, facts })];
    }
    if (line === null || !some(line.text)) return null;
    const alone = {
      file: line.file,
      lines: [line.text],
      first_line: line.line > 0 ? line.line : null,
      marked: 0,
      note: "The lines around it are not to be had any more.",
    };
    return [el("h3", {}, "Evidence"), Excerpts.box(alone, { name: "Evidence", now, whole, facts: where })];
  }

  return Object.freeze({ state, cause, facts, when, some });
})();

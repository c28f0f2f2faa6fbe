"use strict";
/* Account: what a run is, why, and what to do about it. Each function builds the nodes of a section, or null. */
const Account = (() => {
  const { el } = Draw;
  const SURE = [[0.85, "sure"], [0.6, "likely"], [0, "perhaps"]];

  const some = (value) => value !== null && value !== undefined && value !== "";

  const SAME = 60;
  const flat = (text) => text.replace(/\s+/g, " ").trim();

  /** Whether the account of the failure has a marked line that says this; so it is not said twice. */
  function shows(doc, text) {
    const said = flat(text).slice(0, SAME);
    return said !== "" && (doc.account?.excerpts ?? []).some(({ lines, marked }) =>
      typeof marked === "number" && flat(String(lines[marked] ?? "")).includes(said));
  }

  /** The reason of an alert or a transition, unless it is the one that stands at the top of the page. */
  function reason(doc, text) {
    if (!some(text)) return null;
    const told = flat(doc.run.reason ?? "");
    const same = told.length > 0 && flat(text).slice(0, SAME) === told.slice(0, SAME);
    return same ? el("span", { class: "muted", title: text }, "as above") : text;
  }

  const HANGS = /stall|progress_stale/;

  /** Where it hangs matters most while it hangs. */
  const hangs = (doc) =>
    doc.stacks !== null &&
    doc.stacks !== undefined &&
    (doc.run.status === "TIMED_OUT" ||
      [...(doc.run.conditions ?? []), ...Object.keys(doc.conditions ?? {})].some((name) => HANGS.test(name)));

  /** A moment as its age, with the time in its title. */
  function when(given, now) {
    return el("span", { title: Format.full(given) }, Format.ago(given, now));
  }

  /** Names and values beside each other; pairs without a value are left out. */
  function facts(pairs, name = "facts") {
    const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== Format.MISSING);
    return known.length === 0
      ? null
      : el("dl", { class: name },
          known.map(([label, value]) => el("div", { "data-key": label }, el("dt", {}, label), el("dd", {}, value))));
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

  /** That it stands still, and how to have that watched. */
  function standsStill(run, now) {
    const told = Rows.still(run, now);
    if (told === null) return null;
    const limit = run.stall_limited === false
      ? [": ", el("code", {}, `${Data.command("limits", run.run_id)} --stall-minutes 30`), " sets one."] : ["."];
    return box("doubt", "It stands still: ", told, ...limit);
  }

  /** Status and reason, since when, and all that makes them doubtful. */
  function state(doc, now) {
    const run = doc.run;
    const conditions = [...new Set([...(run.conditions ?? []), ...Object.keys(doc.conditions ?? {})])];
    return [
      el("p", { class: "state" }, Draw.statusOf(run), since(run, now)),
      some(run.reason) && !shows(doc, run.reason) ? el("p", { class: "lead-reason" }, run.reason) : null,
      run.doubt ? box("doubt", "This may be out of date: ", run.doubt) : null,
      standsStill(run, now),
      run.silenced
        ? box("doubt", "Silenced: ", `no alerts until ${run.silenced.until}, by ${run.silenced.by}${
            run.silenced.why ? `: ${run.silenced.why}` : ""}`)
        : null,
      run.acknowledged
        ? box("known", "Acknowledged: ", `${run.acknowledged.by}, ${Format.ago(run.acknowledged.at, now)}${
            run.acknowledged.note ? `: ${run.acknowledged.note}` : ""}`)
        : null,
      run.fault
        ? box("doubt", "Part of it could not be read: ", run.fault, el("br", {}), "This shows it as it was last read.")
        : null,
      run.recorded === false
        ? el("p", { class: "muted" },
            "No pass of the watchdog has recorded this run yet: this is what a first look says.")
        : null,
      run.complete === false ? el("p", { class: "muted" }, "Part of it is still to be read.") : null,
      conditions.length > 0
        ? el("ul", { class: "plain conditions", "aria-label": "Warnings" },
            conditions.map((name) =>
              el("li", { "data-key": name },
                el("span", { class: "s-warning" }, el("span", { "aria-hidden": "true" }, "▲ "), el("code", {}, name)),
                some(doc.conditions?.[name]) ? ` ${doc.conditions[name]}` : null)))
        : null,
      facts([
        ["Last beat", run.beat_at ? when(run.beat_at, now) : "none was seen"],
        ["Attempt", Format.integer(run.attempt)],
        ["Phase", run.phase ?? null],
        ["Host", run.host ?? null],
        ["Owner", run.owner ?? null],
        ["Team", run.team ?? null],
        ["Tags", run.tags?.length ? run.tags.join(", ") : null],
        ["Notes", doc.training_notes ?? null],
        [
          "Alerts",
          some(doc.alerts?.pending)
            ? `${Format.integer(doc.alerts.delivered)} delivered, ${Format.integer(doc.alerts.pending)} waiting` : null,
        ],
        ["Seen", doc.at ? el("span", { title: Format.full(doc.at) }, Format.time(doc.at, Date.now(), true)) : null],
      ]),
    ];
  }

  /** Where it is undecided which of two causes it is: both beside each other, each with what to do about it. */
  function either(told) {
    const reading = ({ error_type: name, hint, restart }) =>
      el("div", { class: "note todo", "data-key": name },
        el("h3", {}, "If it is ", el("code", {}, name)),
        some(hint) ? el("p", {}, hint) : null,
        some(restart) ? el("p", {}, el("strong", {}, "Restart: "), restart) : null);
    return el("div", { class: "either" }, [told, told.second].map(reading));
  }

  function todo(doc) {
    if (some(doc.explained?.second)) return either(doc.explained);
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
      some(name) || !troubled || hangs(doc) || doc.account?.excerpts?.length > 0
        ? null : el("p", {}, "No cause is known: nothing that was read says why."),
      some(name)
        ? el("p", { class: "cause-name" },
            el("code", {}, name),
            some(told?.second) ? [" or ", el("code", {}, told.second.error_type)] : null,
            sure === null ? null : [" ", el("span", { class: "sure" }, sure)],
            some(told?.subsystem) ? el("span", { class: "muted" }, ` · ${told.subsystem}`) : null,
            some(told?.signal) ? el("span", { class: "muted" }, " · signal ", el("code", {}, told.signal)) : null)
        : null,
      seenBefore(doc, told?.similar),
      todo(doc),
      some(told?.restart) && !some(told.second) ? el("p", {}, el("strong", {}, "Restart: "), told.restart) : null,
      evidence(doc, line, where, now, whole),
      told?.stuck ? stuckRanks(told.stuck, now) : null,
      told?.also_seen?.length > 0
        ? [
            el("h3", {}, "Also seen"),
            el("ul", { class: "plain also" }, told.also_seen.map((text) => el("li", {}, text))),
          ]
        : null,
    ];
  }

  /** What each rank does in the collective in which they are stuck. */
  function stuckRanks(stuck, now) {
    const lead = `Ranks in ${stuck.call} of group ${stuck.group}`;
    const rows = (stuck.ranks ?? []).map((row) => ({
      key: `${row.does} ${row.ranks} ${row.frame ?? ""}`,
      name: row.does === "waits" ? null : "blamed",
      cells: [
        `${row.count > 1 ? "ranks" : "rank"} ${row.ranks}${some(row.host) ? ` on ${row.host}` : ""}`,
        row.does,
        some(row.call) ? el("code", {}, row.call) : null,
        row.since ? el("span", { title: Format.full(row.since) }, Format.time(row.since, now, true)) : null,
        some(row.frame) ? el("code", {}, row.frame) : null,
      ],
    }));
    return [el("h3", {}, lead), Records.table(lead, ["Ranks", "What they do", "Call", "Since", "At"], rows)];
  }

  /** The last failure of the same cause; the run is a link where it is one of those on the page. */
  function seenBefore(doc, similar) {
    if (!similar || !some(similar.text)) return null;
    const lead = el("strong", {}, "Seen before: ");
    const id = similar.run_id;
    const [before, after] = similar.own || !some(id) ? [similar.text, ""] : split(similar.text, id);
    const name = after === "" && before === similar.text ? null : Draw.runLink(id);
    return el("p", { class: "seen-before" }, lead, before, name, after);
  }

  function split(text, id) {
    const at = text.indexOf(id);
    return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + id.length)];
  }

  /** What shows it: evidence, `_error` and the end of the log as one account, in which no line stands twice. */
  function evidence(doc, line, where, now, whole) {
    const told = doc.account?.excerpts ?? [];
    const box = (each) => Excerpts.box(each, { name: "Evidence", now, whole, facts: each.marked === null ? [] : where });
    if (told.length > 0) return [el("h3", {}, "Evidence"), told.map(box)];
    if (line === null || !some(line.text)) return null;
    const alone = { file: line.file, lines: [line.text], first_line: line.line > 0 ? line.line : null, marked: 0,
      note: "The lines around it are no longer available." };
    return [el("h3", {}, "Evidence"), box(alone)];
  }

  return Object.freeze({ state, cause, facts, when, some, hangs, reason });
})();

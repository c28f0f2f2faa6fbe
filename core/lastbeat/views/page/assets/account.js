"use strict";
/* Account: what a run is, why, and what to do about it. Each function builds the nodes of a section, or null. */
const Account = (() => {
  const { el, muted } = Draw;
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
  const hangs = (doc) => some(doc.stacks) &&
    (doc.run.status === "TIMED_OUT" || conditions(doc).some((name) => HANGS.test(name)));

  const conditions = (doc) => [...new Set([...(doc.run.conditions ?? []), ...Object.keys(doc.conditions ?? {})])];

  /** Names and values beside each other; pairs without a value are left out. */
  function facts(pairs, name = "facts") {
    const known = pairs.filter(([, value]) => some(value) && value !== false && value !== Format.MISSING);
    return known.length > 0 && el("dl", { class: name },
      known.map(([label, value]) => el("div", { "data-key": label }, el("dt", {}, label), el("dd", {}, value))));
  }

  /** Sureness in a word, as alerts and `lastbeat explain` say it. */
  function sureness(confidence) {
    return typeof confidence === "number" ? SURE.find(([least]) => confidence >= least || least === 0)[1] : null;
  }

  const box = (lead, ...rest) => el("div", { class: "note" }, el("p", {}, el("strong", {}, lead), rest));

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
    return box("It stands still: ", told, ...limit);
  }

  /** Status and reason, since when, and all that makes them doubtful. */
  function state(doc, now) {
    const { run } = doc, { silenced, acknowledged } = run, because = (why) => (why ? `: ${why}` : "");
    const warnings = conditions(doc);
    return [
      el("p", { class: "state" }, Draw.statusOf(run), since(run, now)),
      some(run.reason) && !shows(doc, run.reason) && el("p", { class: "lead-reason" }, run.reason),
      run.doubt && box("This may be out of date: ", run.doubt),
      standsStill(run, now),
      silenced && box("Silenced: ", `no alerts until ${silenced.until}, by ${silenced.by}${because(silenced.why)}`),
      acknowledged && box("Acknowledged: ",
        `${acknowledged.by}, ${Format.ago(acknowledged.at, now)}${because(acknowledged.note)}`),
      run.fault && box("Part of it could not be read: ", run.fault, el("br", {}), "This shows it as it was last read."),
      run.recorded === false && muted("No pass of the watchdog has recorded this run yet: this is what a first look says."),
      run.complete === false && muted("Part of it is still to be read."),
      warnings.length > 0 && el("ul", { class: "plain conditions", "aria-label": "Warnings" }, warnings.map((name) =>
        el("li", { "data-key": name }, Draw.signed("span", "warning", "▲", el("code", {}, name)),
          some(doc.conditions?.[name]) && ` ${doc.conditions[name]}`))),
      facts([
        ["Last beat", run.beat_at ? Draw.ago(run.beat_at, now) : "none was seen"],
        ["Attempt", Format.integer(run.attempt)],
        ["Phase", run.phase],
        ["Host", run.host],
        ["Owner", run.owner],
        ["Team", run.team],
        ["Tags", run.tags?.join(", ")],
        ["Notes", doc.training_notes],
        ["Alerts", some(doc.alerts?.pending) &&
          `${Format.integer(doc.alerts.delivered)} delivered, ${Format.integer(doc.alerts.pending)} waiting`],
        ["Seen", doc.at && Draw.time(doc.at, Date.now())],
      ]),
    ];
  }

  /** Where it is undecided which of two causes it is: both beside each other, each with what to do about it. */
  function either(told) {
    const reading = ({ error_type: name, hint, restart }) => el("div", { class: "note todo", "data-key": name },
      el("h3", {}, "If it is ", el("code", {}, name)), some(hint) && el("p", {}, hint), restarting(restart));
    return el("div", { class: "either" }, [told, told.second].map(reading));
  }

  const restarting = (words) => some(words) && el("p", {}, el("strong", {}, "Restart: "), words);

  function todo(doc) {
    if (some(doc.explained?.second)) return either(doc.explained);
    const advice = doc.explained?.hint || doc.run.action;
    return some(advice) ? el("div", { class: "note todo" }, el("h3", {}, "What to do"), el("p", {}, advice)) : null;
  }

  /** Why: the cause with its evidence in the log around it, and what to do. */
  function cause(doc, now, whole) {
    const { run, explained: told = null } = doc, name = told?.error_type ?? run.cause;
    const troubled = run.status === "FAILED" || run.status === "TIMED_OUT";
    if (!some(name) && !todo(doc) && !troubled) return null;
    const sure = name !== "unknown" && sureness(told?.confidence), line = told?.evidence ?? null;
    const where = line === null ? [] : [some(line.rank) && `rank ${line.rank}`, line.host,
      line.time && Format.time(line.time, now, true)].filter(Boolean);
    const unknown = troubled && !some(name) && !hangs(doc) && !(doc.account?.excerpts?.length > 0);
    return [
      unknown && el("p", {}, "No cause is known: nothing that was read says why."),
      some(name) && el("p", { class: "cause-name" }, el("code", {}, name),
        some(told?.second) && [" or ", el("code", {}, told.second.error_type)],
        sure && [" ", el("span", { class: "sure" }, sure)],
        some(told?.subsystem) && el("span", { class: "muted" }, ` · ${told.subsystem}`),
        some(told?.signal) && el("span", { class: "muted" }, " · signal ", el("code", {}, told.signal))),
      seenBefore(doc, told?.similar),
      todo(doc),
      !some(told?.second) && restarting(told?.restart),
      evidence(doc, line, where, now, whole),
      told?.stuck && stuckRanks(told.stuck, now),
      told?.also_seen?.length > 0 && [el("h3", {}, "Also seen"), Draw.list(told.also_seen, "also")],
    ];
  }

  /** What each rank does in the collective in which they are stuck. */
  function stuckRanks(stuck, now) {
    const lead = `Ranks in ${stuck.call} of group ${stuck.group}`;
    const rows = (stuck.ranks ?? []).map((row) => [`${row.does} ${row.ranks} ${row.frame ?? ""}`, [
      `${row.count > 1 ? "ranks" : "rank"} ${row.ranks}${some(row.host) ? ` on ${row.host}` : ""}`,
      row.does,
      some(row.call) && el("code", {}, row.call),
      row.since && Draw.time(row.since, now),
      some(row.frame) && el("code", {}, row.frame),
    ], row.does !== "waits" && "blamed"]);
    return [el("h3", {}, lead), Records.table(lead, ["Ranks", "What they do", "Call", "Since", "At"], rows)];
  }

  /** The last failure of the same cause; the run is a link where it is one of those on the page. */
  function seenBefore(doc, similar) {
    if (!similar || !some(similar.text)) return null;
    const { text, run_id: id, own } = similar, at = own || !some(id) ? -1 : text.indexOf(id);
    return el("p", { class: "seen-before" }, el("strong", {}, "Seen before: "),
      at < 0 ? text : [text.slice(0, at), Draw.runLink(id), text.slice(at + id.length)]);
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

  return Object.freeze({ state, cause, facts, some, hangs, reason });
})();

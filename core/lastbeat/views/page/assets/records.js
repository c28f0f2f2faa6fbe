"use strict";
/* Records: what the store holds of a run, as tables: heartbeats, alerts, transitions, logs, and where it all lies. */
const Records = (() => {
  const { el, muted, ago } = Draw;
  const { some } = Account;
  const SENT = { sent: { sign: "✔", name: "succeeded" }, waiting: { sign: "◷", name: "timed-out" },
    failed: { sign: "✖", name: "failed" } };
  const MOST_ROWS = 200;
  const UNREAD = "Not known: the run's record could not be read.";

  /** A table whose rows become cards where it is narrow. Rows: [key, a cell for each column, class]. */
  function table(name, columns, rows) {
    const cellOf = (cell, index) => el("td", { "data-label": columns[index], class: (cell ?? false) === false && "nothing" },
      cell || (cell === "" ? "" : Format.MISSING));
    return el("table", { class: "table cards", "aria-label": name },
      el("thead", {}, el("tr", {}, columns.map((column) => el("th", { scope: "col" }, column)))),
      el("tbody", {}, rows.slice(0, MOST_ROWS).map(([key, cells, kind]) =>
        el("tr", { "data-key": key, class: kind }, cells.map(cellOf)))));
  }

  const code = (text) => some(text) && el("code", {}, text);

  /** Which limits hold for the run and from where, and which one decided that it is TIMED_OUT. */
  function limits(doc) {
    const held = (doc.limits ?? []).map((each) => String(each.text));
    const by = doc.exceeded ? `; TIMED_OUT by: ${doc.exceeded.text}` : "";
    return held.length > 0 && el("p", { class: "muted", "data-key": "limits" }, `Limits: ${held.join(", ")}${by}`);
  }

  /** Heartbeat files: how old, what time they give themselves, what else stands in them; and the limits for them. */
  function beats(doc, now) {
    const list = doc.beats ?? [], facts = (beat) => Object.entries(beat.facts ?? {}).slice(0, 40)
      .map(([label, value]) => [label, String(value)]);
    return [
      list.length === 0 ? muted("No heartbeat file was found.")
        : table("Heartbeats", ["File", "Stored", "Its own time", "What it says"], list.map((beat) => [beat.name, [
          code(beat.name), ago(beat.modified, now), beat.own_time && ago(beat.own_time, now),
          [beat.fault && Draw.signed("p", "warning", "▲", beat.fault),
            Account.facts(facts(beat), "facts small") || (!beat.fault && Format.MISSING)],
        ]])),
      limits(doc),
    ];
  }

  /** When it was sent, or when one that waits is tried again. */
  function told(state, at, now) {
    if (state !== "waiting") return Format.ago(at, now);
    const wait = (Format.moment(at) - now) / 1000;
    return wait > 0 ? `next try in ${Format.duration(wait)}` : "due with the next pass";
  }

  function delivery([channel, state, at], now) {
    const looks = SENT[state] ?? { sign: "·", name: "unknown" };
    return [code(channel), ": ", Draw.signed("span", looks.name, looks.sign, state),
      at && el("span", { class: "muted", title: Format.full(at) }, ` ${told(state, at, now)}`)];
  }

  /** What people were told, and what still waits. */
  function alerts(doc, now) {
    const known = doc.alerts;
    if (!known) return null;
    if (known.pending === null) return [muted(UNREAD)];
    const list = [...(known.list ?? [])].reverse();
    const dropped = known.dropped > 0 ? `, ${Format.integer(known.dropped)} given up because too many waited` : "";
    return [
      el("p", {}, `${Format.integer(known.delivered)} delivered, `, known.pending > 0
        ? el("strong", { class: "late" }, `◷ ${Format.integer(known.pending)} waiting`) : "none waiting", `${dropped}.`),
      list.length === 0 ? muted("There are no alerts in the record.")
        : table("Alerts", ["Alert", "When", "Reason", "Deliveries"], list.map(({ deliveries = [], ...alert }) => [alert.number, [
          [el("strong", {}, alert.event), el("span", { class: "muted" }, ` #${alert.number}`)],
          ago(alert.at, now),
          [Account.reason(doc, alert.reason), alert.error && Draw.signed("p", "failed", "✖", alert.error)],
          deliveries.length > 0 ? Draw.list(deliveries.map((each) => delivery(each, now))) : "no channel is set",
        ], deliveries.some(([, state]) => state === "waiting") && "waits"])),
    ];
  }

  /** What people did to it, the latest first. */
  function people(doc, now) {
    const list = [...(doc.interventions ?? [])].reverse();
    return list.length > 0 && table("What people did", ["When", "Who", "What"],
      list.map((each, index) => [`did-${list.length - index}`, [ago(each.at, now), each.by, each.what]]));
  }

  /** How its status changed, the latest first. */
  function transitions(doc, now) {
    const list = [...(doc.history ?? [])].reverse();
    if (doc.transitions === null) return [muted(UNREAD)];
    if (list.length === 0) return [muted("No change of status is recorded."), people(doc, now)];
    const more = (doc.transitions ?? list.length) - list.length;
    const to = () => [el("span", { "aria-hidden": "true" }, " → "), el("span", { class: "unseen" }, " to ")];
    return [
      table("Transitions", ["#", "When", "Change", "Reason", "Attempt", "Step"], list.map((each) => [each.number, [
        String(each.number),
        ago(each.at, now),
        [each.before && [Draw.status(each.before), to()], Draw.status(each.after)],
        [Account.reason(doc, each.reason), each.cause && [" ", code(each.cause)],
          each.silenced && muted(`No alert was sent: ${each.silenced}`)],
        Format.integer(each.attempt),
        typeof each.step === "number" && Format.integer(each.step),
      ]])),
      more > 0 && muted(`${Format.count(more, "earlier transition")} ${more === 1 ? "is" : "are"} not kept.`),
      people(doc, now),
    ];
  }

  /** What the policy's `on:` noted and ran, the latest first. */
  function reactions(known, now) {
    const notes = [...(known.notes ?? [])].reverse(), commands = [...(known.commands ?? [])].reverse();
    const ended = (each) => [each.failed ? Draw.signed("span", "failed", "✖", each.how) : each.how, " ", ago(each.ended_at, now)];
    return [
      notes.length > 0 && table("Notes of the policy", ["When", "On", "Note"],
        notes.map((each, index) => [`note-${index}`, [ago(each.at, now), code(each.on), each.text]])),
      commands.length > 0 && table("Commands of the policy", ["Command", "Started", "How it ended", "Output"],
        commands.map((each) => [each.name,
          [code(each.name), ago(each.at, now), each.ended_at ? ended(each) : "runs", code(each.output)]])),
    ];
  }

  /** The job of a supervised run: what its launcher says, who looks after it, and what is left of its restarts. */
  function job(doc, now) {
    const known = doc.job;
    if (!known) return null;
    const at = (iso, words) => iso && [words, ago(iso, now)];
    const { ruling, checkpoint: found, over } = known, nodes = (known.nodes ?? []).slice(0, 8).join(", ");
    const budgets = (known.budgets ?? []).map((each) =>
      each.limit === null ? `${each.name} ${each.used}, no limit` : `${each.name} ${each.left} of ${each.limit}`);
    return [
      Account.facts([
        ["Job", known.id ? [code(String(known.id)), ` (${known.launcher}) ${known.state ?? ""}`] : "not started yet"],
        ["Nodes", nodes],
        ["Supervised by", known.supervised_by ? [known.supervised_by, at(known.supervised_since, ", since ")]
          : !over && Draw.signed("strong", "warning", "▲", "no supervisor now")],
        ["Restart policy", known.policy ?? "none: nothing is restarted"],
        ["Restarts", Format.integer(known.restarts)],
        ["Budget left", budgets.join(", ")],
        ["Next job", known.next && [code(known.next), at(known.starts_at, " not before ") ?? " now"]],
        ["Last checkpoint", found && [typeof found.step === "number" && `step ${Format.integer(found.step)}, `,
          code(found.url), at(found.saved_at, ", saved ")]],
        ["Decided", ruling && [ruling.action !== "restart" ? "not restarted: "
          : `restart${ruling.attempt ? `, attempt ${ruling.attempt}` : ""}: `,
        ruling.reason, ruling.lives_on && `; ${ruling.lives_on}`, at(ruling.at, " ")]],
      ]),
      ...reactions(known, now),
      !known.supervised_by && !over && !doc.run.run_id.startsWith("-") &&
        copied("Go on with it", Data.command("restart resume", doc.run.run_id), "resume"),
    ];
  }

  /** All log files there are. */
  function logs(doc, now) {
    const list = doc.logs ?? [];
    return list.length > 0 && el("details", { class: "expand" }, el("summary", {}, Format.count(list.length, "log file")),
      table("Log files", ["File", "Written", "Size"],
        list.map(([name, at, size]) => [name, [code(name), at && ago(at, now), el("span", {}, Format.bytes(size))]])),
      list.length > MOST_ROWS && muted(`and ${list.length - MOST_ROWS} more.`));
  }

  function copied(label, text, key) {
    return el("div", { class: "copied", "data-key": key },
      el("span", { class: "copied-name" }, label), el("code", { id: `copy-${key}` }, text),
      Draw.button("Copy", null, { "data-copy": `copy-${key}`, "aria-label": `Copy: ${label}` }));
  }

  /** Where the files lie, and the commands that show more. */
  function files(doc) {
    const id = doc.run.run_id, command = (label, verb, key) => copied(label, Data.command(verb, id), key);
    return [
      some(doc.where) && copied("Files", doc.where, "where"),
      some(doc.link) && el("p", {}, "In the console: ", Draw.outside(doc.link, doc.link)),
      command("All about it", "show", "show"),
      (doc.log || doc.logs?.length > 0) && command("Its log as it grows", "logs -f", "logs"),
      command("Live in a terminal", "top", "top"),
    ];
  }

  /** What training was configured with; null where it said nothing. */
  function config(doc) {
    const rows = Object.entries(doc.config ?? {}).map(([key, each]) => [key, [key, String(each)]]);
    return rows.length === 0 ? null : [table("Configuration", ["Key", "Value"], rows)];
  }

  return Object.freeze({ table, config, beats, alerts, transitions, job, logs, files });
})();

"use strict";
/* Records: what the store holds of a run, as tables: heartbeats, alerts, transitions, logs, and where it all lies. */
const Records = (() => {
  const { el } = Draw;
  const { when, some } = Account;
  const SENT = { sent: { sign: "✔", name: "succeeded" }, waiting: { sign: "◷", name: "timed-out" },
    failed: { sign: "✖", name: "failed" } };
  const MOST_ROWS = 200;
  const UNREAD = "Not known: the run's record could not be read.";

  /** A table whose rows become cards where it is narrow. Rows: { key, cells }, a cell for each column. */
  function table(name, columns, rows) {
    return el("table", { class: "table cards", "aria-label": name },
      el("thead", {}, el("tr", {}, columns.map((column) => el("th", { scope: "col" }, column)))),
      el("tbody", {},
        rows.slice(0, MOST_ROWS).map(({ key, cells, name: kind }) =>
          el("tr", { "data-key": key, class: kind ?? null },
            cells.map((cell, index) =>
              el("td", { "data-label": columns[index], class: cell === null ? "nothing" : null },
                cell ?? Format.MISSING))))));
  }

  /** Which limits hold for the run and from where, and which one decided that it is TIMED_OUT. */
  function limits(doc) {
    const held = (doc.limits ?? []).map((each) => String(each.text));
    if (held.length === 0) return [];
    const by = doc.exceeded ? `; TIMED_OUT by: ${doc.exceeded.text}` : "";
    return [el("p", { class: "muted small", "data-key": "limits" }, `Limits: ${held.join(", ")}${by}`)];
  }

  /** Heartbeat files: how old, what time they give themselves, what else stands in them; and the limits for them. */
  function beats(doc, now) {
    const list = doc.beats ?? [];
    if (list.length === 0) return [el("p", { class: "muted" }, "No heartbeat file was found."), ...limits(doc)];
    return [
      table("Heartbeats",
        ["File", "Stored", "Its own time", "What it says"],
        list.map((beat) => ({
          key: beat.name,
          cells: [
            el("code", {}, beat.name),
            when(beat.modified, now),
            beat.own_time ? el("span", { title: Format.full(beat.own_time) }, Format.ago(beat.own_time, now)) : null,
            [
              beat.fault
                ? el("p", { class: "s-warning" }, el("span", { "aria-hidden": "true" }, "▲ "), beat.fault) : null,
              Object.keys(beat.facts ?? {}).length > 0
                ? Account.facts(
                    Object.entries(beat.facts).slice(0, 40).map(([label, value]) => [label, String(value)]),
                    "facts small")
                : beat.fault
                  ? null
                  : Format.MISSING,
            ],
          ],
        }))),
      ...limits(doc),
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
    return el("li", {},
      el("code", {}, channel), ": ",
      el("span", { class: `s-${looks.name}` }, el("span", { "aria-hidden": "true" }, `${looks.sign} `), state),
      at ? el("span", { class: "muted", title: Format.full(at) }, ` ${told(state, at, now)}`) : null);
  }

  /** What people were told, and what still waits. */
  function alerts(doc, now) {
    const told = doc.alerts;
    if (!told) return null;
    if (told.pending === null) return [el("p", { class: "muted" }, UNREAD)];
    const list = [...(told.list ?? [])].reverse();
    const dropped = told.dropped > 0 ? `, ${Format.integer(told.dropped)} given up because too many waited` : "";
    return [
      el("p", {}, `${Format.integer(told.delivered)} delivered, `,
        told.pending > 0
          ? el("strong", { class: "s-timed-out" }, `◷ ${Format.integer(told.pending)} waiting`) : "none waiting",
        `${dropped}.`),
      list.length === 0
        ? el("p", { class: "muted" }, "There are no alerts in the record.")
        : table("Alerts",
            ["Alert", "When", "Reason", "Deliveries"],
            list.map((alert) => ({
              key: alert.number,
              name: (alert.deliveries ?? []).some(([, state]) => state === "waiting") ? "waits" : null,
              cells: [
                [el("strong", {}, alert.event), el("span", { class: "muted" }, ` #${alert.number}`)],
                when(alert.at, now),
                [
                  Account.reason(doc, alert.reason),
                  alert.error
                    ? el("p", { class: "s-failed" }, el("span", { "aria-hidden": "true" }, "✖ "), alert.error) : null,
                ],
                (alert.deliveries ?? []).length > 0
                  ? el("ul", { class: "plain" }, alert.deliveries.map((each) => delivery(each, now)))
                  : "no channel is set",
              ],
            }))),
    ];
  }

  /** What people did to it, the latest first. */
  function people(doc, now) {
    const list = [...(doc.interventions ?? [])].reverse();
    return list.length === 0 ? null : table("What people did", ["When", "Who", "What"],
      list.map((each, index) => ({ key: `did-${list.length - index}`, cells: [when(each.at, now), each.by, each.what] })));
  }

  /** How its status changed, the latest first. */
  function transitions(doc, now) {
    const list = [...(doc.history ?? [])].reverse();
    if (doc.transitions === null) return [el("p", { class: "muted" }, UNREAD)];
    if (list.length === 0) return [el("p", { class: "muted" }, "No change of status is recorded."), people(doc, now)];
    const more = (doc.transitions ?? list.length) - list.length;
    return [
      table("Transitions",
        ["#", "When", "Change", "Reason", "Attempt", "Step"],
        list.map((each) => ({
          key: each.number,
          cells: [
            String(each.number),
            when(each.at, now),
            [
              each.before
                ? [
                    Draw.status(each.before),
                    el("span", { "aria-hidden": "true" }, " → "), el("span", { class: "unseen" }, " to "),
                  ]
                : null,
              Draw.status(each.after),
            ],
            [
              Account.reason(doc, each.reason),
              each.cause ? [" ", el("code", {}, each.cause)] : null,
              each.silenced ? el("p", { class: "muted" }, `No alert was sent: ${each.silenced}`) : null,
            ],
            Format.integer(each.attempt),
            typeof each.step === "number" ? Format.integer(each.step) : null,
          ],
        }))),
      more > 0
        ? el("p", { class: "muted" },
            `${Format.count(more, "earlier transition")} ${more === 1 ? "is" : "are"} not kept.`)
        : null,
      people(doc, now),
    ];
  }

  /** What the policy's `on:` noted and ran, the latest first. */
  function reactions(known, now) {
    const notes = [...(known.notes ?? [])].reverse(), commands = [...(known.commands ?? [])].reverse();
    return [
      notes.length === 0 ? null : table("Notes of the policy", ["When", "On", "Note"],
        notes.map((each, index) => ({ key: `note-${index}`, cells: [when(each.at, now), el("code", {}, each.on), each.text] }))),
      commands.length === 0 ? null : table("Commands of the policy", ["Command", "Started", "How it ended", "Output"],
        commands.map((each) => ({
          key: each.name,
          cells: [
            el("code", {}, each.name),
            when(each.at, now),
            each.ended_at ? [el("span", { class: each.failed ? "s-failed" : null }, `${each.failed ? "✖ " : ""}${each.how ?? ""}`),
              " ", when(each.ended_at, now)] : "runs",
            each.output ? el("code", {}, each.output) : null,
          ],
        }))),
    ];
  }

  /** The job of a supervised run: what its launcher says, who looks after it, and what is left of its restarts. */
  function job(doc, now) {
    const known = doc.job;
    if (!known) return null;
    const at = (iso) => (iso ? when(iso, now) : null);
    const ruling = known.ruling, found = known.checkpoint;
    const nodes = (known.nodes ?? []).slice(0, 8).join(", ");
    const budgets = (known.budgets ?? []).map((each) =>
      each.limit === null ? `${each.name} ${each.used}, no limit` : `${each.name} ${each.left} of ${each.limit}`);
    return [
      Account.facts([
        ["Job", known.id ? [el("code", {}, String(known.id)), ` (${known.launcher}) ${known.state ?? ""}`] : "not started yet"],
        ["Nodes", nodes || null],
        ["Supervised by", known.supervised_by ? [known.supervised_by, ...(known.supervised_since ? [", since ", at(known.supervised_since)] : [])]
          : known.over ? null : el("strong", { class: "s-warning" }, "▲ no supervisor now")],
        ["Restart policy", known.policy ?? "none: nothing is restarted"],
        ["Restarts", Format.integer(known.restarts)],
        ["Budget left", budgets.length > 0 ? budgets.join(", ") : null],
        ["Next job", known.next ? [el("code", {}, known.next), known.starts_at ? [" not before ", at(known.starts_at)] : " now"] : null],
        ["Last checkpoint", found ? [typeof found.step === "number" ? `step ${Format.integer(found.step)}, ` : null,
          el("code", {}, found.url), found.saved_at ? [", saved ", at(found.saved_at)] : null] : null],
        ["Decided", ruling ? [ruling.action === "restart" ? `restart${ruling.attempt ? `, attempt ${ruling.attempt}` : ""}: ` : "not restarted: ",
          ruling.reason, ruling.lives_on ? `; ${ruling.lives_on}` : "", " ", at(ruling.at)] : null],
      ]),
      ...reactions(known, now),
      known.supervised_by || known.over || doc.run.run_id.startsWith("-") ? null
        : copied("Go on with it", Data.command("restart resume", doc.run.run_id), "resume"),
    ];
  }

  /** All log files there are. */
  function logs(doc, now) {
    const list = doc.logs ?? [];
    if (list.length === 0) return null;
    return [
      el("details", { class: "expand" },
        el("summary", {}, Format.count(list.length, "log file")),
        table("Log files",
          ["File", "Written", "Size"],
          list.map(([name, at, size]) => ({ key: name,
            cells: [el("code", {}, name), at ? when(at, now) : null, el("span", {}, Format.bytes(size))] }))),
        list.length > MOST_ROWS ? el("p", { class: "muted" }, `and ${list.length - MOST_ROWS} more.`) : null),
    ];
  }

  function copied(label, text, key) {
    return el("div", { class: "copied", "data-key": key },
      el("span", { class: "copied-name" }, label), el("code", { id: `copy-${key}` }, text),
      el("button", { type: "button", class: "quiet", "data-copy": `copy-${key}`, "aria-label": `Copy: ${label}` },
        "Copy"));
  }

  /** Where the files lie, and the commands that show more. */
  function files(doc) {
    const id = doc.run.run_id;
    const logged = Boolean(doc.log) || doc.logs?.length > 0;
    return [
      some(doc.where) ? copied("Files", doc.where, "where") : null,
      some(doc.link) ? el("p", {}, "In the console: ", Draw.outside(doc.link, doc.link)) : null,
      copied("All about it", Data.command("show", id), "show"),
      logged ? copied("Its log as it grows", Data.command("logs -f", id), "logs") : null,
      copied("Live in a terminal", Data.command("top", id), "top"),
    ];
  }

  /** What training was configured with; null where it said nothing. */
  function config(doc) {
    const rows = Object.entries(doc.config ?? {});
    if (rows.length === 0) return null;
    return [table("Configuration", ["Key", "Value"], rows.map(([key, each]) => ({ key, cells: [key, String(each)] })))];
  }

  return Object.freeze({ table, config, beats, alerts, transitions, job, logs, files });
})();

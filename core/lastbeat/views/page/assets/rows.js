"use strict";
/* Rows: one run as a row of the fleet's table.
 *
 * Rows.COLUMNS tells the columns: what each says, what it is sorted by, and how its cell is drawn. A cell is drawn anew
 * only when its facts are others, so that a focus, a selection and a pointer's rest in the others stand. A row is one
 * line; its last cell has what there is no room for, and is seen when the row is opened.
 */
const Rows = (() => {
  const { el, put } = Draw;
  const LIVING = new Set(["RUNNING", "RUNNING (WARNING)", "UNKNOWN", "NO_HEARTBEAT"]);
  const CALM = new Set(["RUNNING", "NO_HEARTBEAT", "SUCCEEDED", "CANCELLED", "PREEMPTED"]);
  const texts = new WeakMap();

  const lives = (row) => LIVING.has(row.shown);
  const FRESH_S = 86400;

  /** Something is, or was, wrong with it: so what happened is said. */
  const troubled = (row) => !CALM.has(row.shown) || Boolean(row.doubt) || Boolean(row.stands_still) ||
    (lives(row) && Boolean(row.fault));

  /** Somebody has to look at it, as the order of need has it: what failed or fell silent a day ago is history. */
  function needs(row) {
    if (row.acknowledged && !row.doubt && row.status !== "UNKNOWN") return false;
    if (!troubled(row) || ["SUCCEEDED", "CANCELLED", "PREEMPTED"].includes(row.status)) return false;
    if (row.status !== "FAILED" && row.status !== "TIMED_OUT") return true;
    const lasted = Format.ageSeconds(row.since, Data.now());
    return lasted === null || lasted <= FRESH_S;
  }

  /** What the filter looks through, in lower case. */
  function text(row) {
    let known = texts.get(row);
    if (known === undefined) {
      known = [row.run_id, row.shown, row.cause, row.reason, row.phase, row.host, row.owner, row.team, row.doubt, ...(row.tags ?? []),
        row.fault, row.job && row.job.text, ...row.conditions].filter(Boolean).join("\n").toLowerCase();
      texts.set(row, known);
    }
    return known;
  }

  /** The age of a step is shown from this on, in seconds. */
  const OLD_STEP_S = 300;

  /** How old the step of a run is that is to make more of them, in seconds; null where it is too young to show. */
  function stepAge(row, at) {
    const age = row.status === "RUNNING" && row.step !== null ? Format.ageSeconds(row.step_at, at) : null;
    return age !== null && (row.stands_still || age > OLD_STEP_S) ? age : null;
  }

  /** That it stands still, and whether a limit holds; null where it does not, or where a warning says so. */
  function still(row, at) {
    if (!row.stands_still || row.conditions.includes("stalled")) return null;
    return `no step for ${Format.age(row.step_at, at)}${row.stall_limited === false ? ", and no stall limit is set" : ""}`;
  }

  /** What was before this (milliseconds), no watcher saw; null: all that is shown was watched. */
  function watchedSince(row, at) {
    if (row.recorded === false) return at;
    const since = Format.moment(row.watched_since);
    return since !== null && row.strip.length > 0 && since > Math.max(at - 86400000, Format.moment(row.strip[0][0]) ?? at)
      ? since : null;
  }

  /** How much of it is done, from 0 to 1; null where that is not known. */
  function done(row) {
    const step = Format.stepsDone(row), total = Format.value(row.total_steps);
    return step === null || !(total > 0) ? null : Math.min(1, Math.max(0, step / total));
  }

  const late = (row, context) =>
    lives(row) && context.staleS > 0 && Format.ageSeconds(row.beat_at, context.at) > context.staleS;
  const unknown = (row) => (row.complete === false ? "…" : Format.MISSING);
  const newestFirst = (iso) => {
    const then = Format.moment(iso);
    return then === null ? null : -then;
  };

  function statusCell(row, context) {
    if (!row.since) return Draw.statusOf(row);
    return [Draw.statusOf(row), " ",
      el("span", { class: "since", title: `since ${Format.full(row.since)}` }, Format.age(row.since, context.at))];
  }

  function progressCell(row, context) {
    const part = done(row), age = stepAge(row, context.at);
    if (row.step === null) return unknown(row);
    const reached = row.step_at ? `, reached ${Format.full(row.step_at)}` : "";
    const total = row.total_steps === null ? "" : ` / ${Format.compact(row.total_steps)}`;
    const ofAll = row.total_steps === null ? "" : ` of ${Format.integer(row.total_steps)}`;
    return [el("div", { class: "steps", title: `step ${Format.integer(Format.stepsDone(row))}${ofAll}${reached}` },
      el("span", {}, `${Format.compact(Format.stepsDone(row))}${age === null ? total : ""}`),
      age !== null ? el("span", { class: row.stands_still ? "late" : "muted" }, `${Format.duration(age)} ago`)
        : part === null ? null : el("span", { class: "muted" }, Format.percent(part))),
    part === null ? null : el("div", { class: "bar", "aria-hidden": "true" },
      el("div", { style: { width: `${part * 100}%` } }))];
  }

  function lossCell(row) {
    const loss = Format.value(row.loss);
    const odd = loss !== null && !Number.isFinite(loss);
    return el("div", { class: "loss" }, el("span", { class: odd ? "not-a-number" : null },
      loss === null ? unknown(row) : Format.number(loss)),
    row.losses.length > 1 ? Draw.sparkline(row.losses, "loss", 62, 18) : null);
  }

  function beatCell(row, context) {
    if (!row.beat_at) return unknown(row);
    const behind = late(row, context);
    return el("span", { class: behind ? "late" : null, title: `last beat ${Format.full(row.beat_at)}${behind
      ? `; older than the limit of ${Format.duration(context.staleS)}` : ""}` },
    behind ? "▲ " : "", Format.age(row.beat_at, context.at));
  }

  /** What happened on one line: cause, or conditions, and reason; of a run that is well its phase. */
  function whyCell(row, context) {
    const bad = troubled(row), stands = still(row, context.at);
    const told = bad ? row.doubt || [stands, row.reason].filter(Boolean).join("; ") : row.reason;
    const asides = [
      row.job ? `job ${Format.clip(row.job.text, 60)}` : null,
      row.silenced ? `silenced until ${row.silenced.until}${row.silenced.why ? `: ${Format.clip(row.silenced.why, 100)}` : ""}` : null,
      row.acknowledged ? `acknowledged by ${Format.clip(row.acknowledged.by, 60)}${
        row.acknowledged.note ? `: ${Format.clip(row.acknowledged.note, 100)}` : ""}` : null,
      row.pending > 0 ? `${Format.count(row.pending, "alert")} waiting to be sent` : null,
      row.fault ? `not all could be read: ${Format.clip(row.fault, 200)}` : null,
      row.recorded === false ? "no pass has recorded it yet" : null,
    ].filter(Boolean);
    const name = row.cause || row.conditions.join(", ");
    const parts = [
      name ? el("b", { class: "cause" }, Format.clip(name, 120)) : null,
      told ? el("span", { class: row.doubt ? "doubt" : bad ? "reason" : "calm", title: told },
        row.doubt ? "▲ " : "", Format.clip(told, 400)) : null,
      !bad && lives(row) && row.phase ? el("span", { class: "calm" }, Format.clip(row.phase, 120)) : null,
      asides.length ? el("span", { class: "aside", title: asides.join(" · ") }, asides.join(" · ")) : null,
    ].filter(Boolean);
    if (bad && parts.length === 0) parts.push(unknown(row));
    return el("div", { class: "why" }, parts.map((part, index) => (index ? [" ", part] : part)));
  }

  /** What a row has no room for: all of it, what to do, and where it runs. The same in the line that is open and at
   * the foot of the window. */
  function details(row) {
    const told = [], stands = still(row, Data.now() ?? Date.now());
    if (stands) told.push(el("p", { class: "doubt" }, "▲ ", stands));
    if (row.doubt) told.push(el("p", { class: "doubt" }, "▲ ", Format.clip(row.doubt, 300)));
    if (row.reason) told.push(el("p", {}, Format.clip(row.reason, 600)));
    if (row.fault) told.push(el("p", {}, `Not all could be read: ${Format.clip(row.fault, 300)}`));
    if (troubled(row) && row.action) told.push(el("p", { class: "todo" }, Format.clip(row.action, 600)));
    const facts = [row.conditions.length > 0 && row.conditions.join(", "), row.phase && `phase ${Format.clip(row.phase, 120)}`, row.host && Format.clip(row.host, 200),
      row.owner && `owner ${Format.clip(row.owner, 120)}`, row.team && `team ${Format.clip(row.team, 120)}`,
      row.tags?.length && `tags ${Format.clip(row.tags.join(", "), 200)}`,
      `attempt ${Format.integer(row.attempt)}`, row.job && `${Format.clip(row.job.launcher, 40)} job ${Format.clip(row.job.text, 60)}`].filter(Boolean);
    told.push(el("p", { class: "muted" }, facts.join(" · ")));
    return told;
  }

  const speed = (row) => Format.value(row.tokens_per_s) ?? Format.value(row.steps_per_s);

  /* key, title: of the column; by: what it is sorted by, null comes last always (a column without it cannot be sorted);
   * down: whether its first press sorts from large to small; facts: what its cell is made of; draw: what is in it;
   * none: whether a card leaves it out; label: its name on a card. */
  const COLUMNS = Object.freeze([
    { key: "status", title: "Status", hint: "what needs attention first", by: (_row, rank) => rank,
      facts: (row, context) => [row.shown, row.doubt, row.stands_still, row.since,
        row.since && Format.age(row.since, context.at)], draw: statusCell },
    { key: "run", title: "Run", by: (row) => row.run_id.toLowerCase(), facts: () => [],
      draw: (row) => [Data.embedded ? null : el("input", { type: "checkbox", class: "pick", tabindex: "-1", checked: ticked.has(row.run_id),
        "aria-label": `Compare ${row.run_id}` }), Draw.runLink(row.run_id)] },
    { key: "progress", title: "Progress", down: true, by: done,
      facts: (row, context) => [Format.stepsDone(row), row.total_steps, row.complete, row.step_at, row.stands_still,
        stepAge(row, context.at) === null ? null : Format.age(row.step_at, context.at)], draw: progressCell, none: (row) => row.step === null },
    { key: "eta", title: "ETA", label: "ETA", by: (row) => row.eta_s, facts: (row) => [row.eta_s],
      draw: (row) => Format.duration(row.eta_s), none: (row) => row.eta_s === null },
    { key: "loss", title: "Loss", label: "loss", down: true,
      by: (row) => (Number.isNaN(Format.value(row.loss)) ? Infinity : Format.value(row.loss)),
      facts: (row) => [row.loss, row.losses, row.complete], draw: lossCell,
      none: (row) => row.loss === null && row.losses.length === 0 },
    { key: "speed", title: "Speed", hint: "tokens or steps a second", by: speed,
      facts: (row) => [row.tokens_per_s, row.steps_per_s], draw: Format.throughput,
      none: (row) => speed(row) === null },
    { key: "beat", title: "Last beat", label: "last beat", down: true, by: (row) => newestFirst(row.beat_at),
      facts: (row, context) => [Format.age(row.beat_at, context.at), late(row, context), row.complete], draw: beatCell,
      none: (row) => !row.beat_at },
    { key: "strip", title: "24 h", hint: "statuses of the last 24 hours; sorts by the latest change",
      by: (row) => newestFirst(row.since),
      facts: (row, context) => [row.strip, row.watched_since, row.recorded, Math.floor(context.at / 300000)],
      draw: (row, context) => Draw.strip(row.strip, context.at, watchedSince(row, context.at)), none: (row) => row.strip.length === 0 },
    { key: "cause", title: "What happened", hint: "sorts by cause", by: (row) => row.cause && row.cause.toLowerCase(),
      facts: (row, context) => [row.shown, row.cause, row.conditions, row.reason, row.doubt, still(row, context.at), row.fault, row.pending,
        row.recorded, row.phase, row.complete, row.silenced, row.acknowledged, row.job && row.job.text],
      draw: whyCell },
    { key: "attempt", title: "Attempt", down: true, by: (row) => row.attempt,
      facts: (row) => [row.attempt], draw: (row) => Format.integer(row.attempt), none: (row) => row.attempt === 1 },
    { key: "more", title: null, by: null,
      facts: (row, context) => [row.reason, row.action, row.doubt, still(row, context.at), row.fault, row.conditions, row.phase, row.host, row.owner, row.team,
        row.attempt, row.shown, row.job && row.job.text],
      draw: details },
  ]);

  /** Runs that people have ticked, to compare them. */
  const ticked = new Set();
  const BY_KEY = new Map(COLUMNS.map((column) => [column.key, column]));
  /** The terminal's names of columns → those of the page. */
  const ALIASES = { why: "cause", done: "progress" };
  const WIDTHS = { status: "152px", run: "var(--run, 240px)", progress: "126px", eta: "64px", loss: "116px", speed: "86px",
    beat: "70px", strip: "84px", cause: "minmax(320px, 1fr)", attempt: "60px" };

  const known = (name) => BY_KEY.has(ALIASES[name] ?? name);

  /** A cell for anything that a row says under a name. */
  function keyColumn(name) {
    const said = (row) => Filter.value(row, name), text = (row) => {
      const found = said(row);
      return found === null ? Format.MISSING : typeof found === "number" ? Format.number(found) : Format.clip(String(found), 100);
    };
    return { key: name, style: "key", title: name, label: name, by: said, facts: (row) => [said(row)],
      draw: (row) => el("span", { title: text(row) }, text(row)), none: (row) => said(row) === null };
  }

  /** The columns of these names, those with a "!" first: they stay in sight. A row cannot do without its run. */
  function chosen(names) {
    const all = names.some((name) => name.replace(/!$/, "") === "run") ? names : ["run", ...names];
    const pins = all.filter((name) => name.endsWith("!")), left = [];
    const found = [...pins, ...all.filter((name) => !name.endsWith("!"))].map((name, index) => {
      const bare = name.replace(/!$/, ""), column = BY_KEY.get(ALIASES[bare] ?? bare) ?? keyColumn(bare);
      const width = WIDTHS[column.key] ?? "120px", place = `calc(${["7px", ...left].join(" + ")})`;
      left.push(column.key === "cause" ? "320px" : width, "14px");
      return { ...column, width, left: index < pins.length ? place : null };
    });
    return Object.assign([...found, BY_KEY.get("more")], { wide: `calc(${["12px", ...left].join(" + ")})` });
  }

  let made = 0;

  /** A row's element, which knows how to follow its run: .update(row, { at, staleS }). */
  function make(row, context, columns) {
    const number = (made += 1);
    const cells = columns.map(({ key, style, label, left }) => el("td", { class: `c-${style ?? key}${left ? " pinned" : ""}`,
      role: "cell", "data-label": label, style: left ? { left } : null, id: key === "more" ? `more-${number}` : null }));
    const known = columns.map(() => null);
    const line = el("tr", { role: "row", data: { run: row.run_id, key: `run ${row.run_id}` } }, cells);
    let drawn = null, drawnAt = null;

    function update(now, around) {
      if (now === drawn && around.at === drawnAt) return;
      drawn = now;
      drawnAt = around.at;
      for (const [name, holds] of [["ended", !lives(now)], ["gone", false], ["calm-row", !troubled(now)]]) {
        line.classList.toggle(name, holds);
      }
      const looks = `n-${Draw.looksOf(now).name}`;
      if (!line.classList.contains(looks)) {
        line.classList.remove(...[...line.classList].filter((name) => name.startsWith("n-")));
        line.classList.add(looks);
      }
      columns.forEach((column, index) => {
        const facts = JSON.stringify(column.facts(now, around));
        if (facts === known[index]) return;
        known[index] = facts;
        const held = cells[index].contains(document.activeElement);
        put(cells[index], column.draw(now, around));
        // Who was on the link is on it still.
        if (held) cells[index].querySelector("a")?.focus({ preventScroll: true });
        if (column.none) cells[index].classList.toggle("nothing", column.none(now));
      });
      // What to do is told with the link, though it is not in sight.
      const link = line.querySelector(".run-link");
      if (troubled(now)) link.setAttribute("aria-describedby", `more-${number}`);
      else link.removeAttribute("aria-describedby");
    }
    update(row, context);
    return { line, update, get row() { return drawn; } };
  }

  return Object.freeze({ COLUMNS, ticked, known, chosen, make, details, text, needs, still, stepAge });
})();

"use strict";
/* Rows: one run as a row of the fleet's table.
 *
 * Rows.COLUMNS tells the columns: what each says, what it is sorted by, and how its cell is drawn. A row is one line; its
 * last cell has what there is no room for, and is seen when the row is opened.
 */
const Rows = (() => {
  const { el } = Draw;
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
   * down: whether its first press sorts from large to small; draw: what is in it; none: whether a card leaves it out;
   * label: its name on a card; width: where people chose the columns, and not how wide it is. */
  const COLUMNS = Object.freeze([
    { key: "status", width: "176px", title: "Status", hint: "what needs attention first", by: (_row, rank) => rank, draw: statusCell },
    { key: "run", width: "var(--run, 240px)", title: "Run", by: (row) => row.run_id.toLowerCase(),
      draw: (row) => [Data.embedded ? null : el("input", { type: "checkbox", class: "pick", tabindex: "-1", checked: ticked.has(row.run_id),
        "aria-label": `Compare ${row.run_id}` }), Draw.runLink(row.run_id)] },
    { key: "progress", width: "126px", title: "Progress", down: true, by: done, draw: progressCell, none: (row) => row.step === null },
    { key: "eta", width: "64px", title: "ETA", label: "ETA", by: (row) => row.eta_s,
      draw: (row) => Format.duration(row.eta_s), none: (row) => row.eta_s === null },
    { key: "loss", width: "116px", title: "Loss", label: "loss", down: true,
      by: (row) => (Number.isNaN(Format.value(row.loss)) ? Infinity : Format.value(row.loss)), draw: lossCell,
      none: (row) => row.loss === null && row.losses.length === 0 },
    { key: "speed", width: "86px", title: "Speed", hint: "tokens or steps a second", by: speed, draw: Format.throughput,
      none: (row) => speed(row) === null },
    { key: "beat", width: "70px", title: "Last beat", label: "last beat", down: true, by: (row) => newestFirst(row.beat_at), draw: beatCell,
      none: (row) => !row.beat_at },
    { key: "strip", width: "84px", title: "24 h", hint: "statuses of the last 24 hours; sorts by the latest change",
      by: (row) => newestFirst(row.since), draw: (row, context) => Draw.strip(row.strip, context.at, watchedSince(row, context.at)), none: (row) => row.strip.length === 0 },
    { key: "cause", width: "minmax(240px, 1fr)", title: "What happened", hint: "sorts by cause", by: (row) => row.cause && row.cause.toLowerCase(), draw: whyCell },
    { key: "attempt", width: "60px", title: "Attempt", down: true, by: (row) => row.attempt, draw: (row) => Format.integer(row.attempt),
      none: (row) => row.attempt === 1 },
    { key: "more", title: null, by: null, draw: details },
  ]);

  /** Runs that people have ticked, to compare them. */
  const ticked = new Set();
  const BY_KEY = new Map(COLUMNS.map((column) => [column.key, column]));
  /** The terminal's names of columns → those of the page. */
  const ALIASES = { why: "cause", done: "progress" };
  /** What else many runs say something under; other names are those of their configurations and metrics. */
  const FIELDS = { owner: "Owner", team: "Team", tag: "Tags", host: "Host", phase: "Phase", gpus: "GPUs", gpu_hours: "GPU hours",
    total_steps: "Total steps" };
  const LEAST_PX = 40, MOST_PX = 1200;

  const columnOf = (name) => BY_KEY.get(ALIASES[name] ?? name);
  const known = (name) => columnOf(name) !== undefined;
  const label = (name) => columnOf(name)?.title ?? (Object.hasOwn(FIELDS, name) ? FIELDS[name] : name);

  /** A column as an address has it, and back: its name, "!" where it stays in sight, "~" and its width in pixels. */
  function parsed(text) {
    const [, name, pin, width] = /^(.*?)(!?)(?:~(\d{1,6}))?$/.exec(text);
    return { name, pinned: pin !== "", width: width ? Math.min(MOST_PX, Math.max(LEAST_PX, Number(width))) : null };
  }
  const written = ({ name, pinned, width }) => `${name}${pinned ? "!" : ""}${width ? `~${Math.round(width)}` : ""}`;

  /** A cell for anything that a row says under a name. */
  function keyColumn(name) {
    const said = (row) => Filter.value(row, name), text = (row) => {
      const found = said(row);
      return found === null ? Format.MISSING : typeof found === "number" ? Format.number(found) : Format.clip(String(found), 100);
    };
    return { key: name, style: "key", title: label(name), label: label(name), by: said,
      draw: (row) => el("span", { title: text(row) }, text(row)), none: (row) => said(row) === null };
  }

  /** The columns of these names, pinned ones first: they stay in sight. A row cannot do without its run. */
  function chosen(names) {
    const all = names.map(parsed), left = [];
    if (!all.some(({ name }) => name === "run")) all.unshift(parsed("run"));
    const found = [true, false].flatMap((first) => all.filter(({ pinned }) => pinned === first)).map(({ name, pinned, width: wide }) => {
      const column = columnOf(name) ?? keyColumn(name), width = wide ? `${wide}px` : column.width ?? "120px";
      const place = `calc(${["7px", ...left].join(" + ")})`;
      left.push(width.replace(/^minmax\((.*),.*/, "$1"), "14px");
      return { ...column, width, left: pinned ? place : null };
    });
    return Object.assign([...found, BY_KEY.get("more")], { wide: `calc(${["12px", ...left].join(" + ")})`,
      grid: found.map(({ width }) => width).join(" ") });
  }

  let made = 0;

  /** A row's element, which knows how to follow its run: .update(row, { at, staleS }). */
  function make(row, context, columns) {
    const number = (made += 1);
    const cells = columns.map(({ key, style, label, left }) => el("td", { class: `c-${style ?? key}${left ? " pinned" : ""}`,
      role: "cell", "data-label": label, style: left ? { left } : null, id: key === "more" ? `more-${number}` : null }));
    const line = el("tr", { role: "row", data: { run: row.run_id, key: `run ${row.run_id}` } }, cells);
    let drawn = null, drawnAt = null;

    function update(now, around) {
      if (now === drawn && around.at === drawnAt) return;
      [drawn, drawnAt] = [now, around.at];
      line.classList.toggle("ended", !lives(now));
      line.classList.toggle("calm-row", !troubled(now));
      line.classList.remove("gone");
      line.dataset.status = Draw.looksOf(now).name;
      columns.forEach((column, index) => {
        Morph.put(cells[index], column.draw(now, around));
        cells[index].classList.toggle("nothing", Boolean(column.none?.(now)));
      });
      // What to do is told with the link, though it is not in sight.
      const link = line.querySelector(".run-link");
      if (troubled(now)) link.setAttribute("aria-describedby", `more-${number}`);
      else link.removeAttribute("aria-describedby");
    }
    update(row, context);
    return { line, update, get row() { return drawn; } };
  }

  return Object.freeze({ COLUMNS, FIELDS, LEAST_PX, MOST_PX, ticked, known, label, parsed, written, chosen, make, details, text, needs, still, stepAge });
})();

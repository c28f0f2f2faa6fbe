"use strict";
/* Rows: one run as a row of the fleet's table.
 *
 * Rows.COLUMNS tells the columns: what each says, what it is sorted by, and how its cell is drawn. A cell is drawn anew
 * only when its facts are others, so that a focus, a selection and a pointer's rest in the others stand.
 */
const Rows = (() => {
  const { el, put } = Draw;
  const LIVING = new Set(["RUNNING", "RUNNING (WARNING)", "UNKNOWN"]);
  const texts = new WeakMap();

  const lives = (row) => LIVING.has(row.shown);
  const FRESH_S = 86400;

  /** Something is, or was, wrong with it: so what happened is said. */
  const troubled = (row) =>
    !(row.shown === "RUNNING" || row.shown === "SUCCEEDED" || row.shown === "CANCELLED") || Boolean(row.doubt) || (lives(row) && Boolean(row.fault));

  /** Somebody has to look at it, as the order of need has it: what failed or fell silent a day ago is history. */
  function needs(row) {
    if (!troubled(row) || row.status === "SUCCEEDED" || row.status === "CANCELLED") return false;
    if (row.status !== "FAILED" && row.status !== "TIMED_OUT") return true;
    const lasted = Format.ageSeconds(row.since, Data.now());
    return lasted === null || lasted <= FRESH_S;
  }

  /** What the filter looks through, in lower case. */
  function text(row) {
    let known = texts.get(row);
    if (known === undefined) {
      known = [row.run_id, row.shown, row.cause, row.reason, row.phase, row.host, row.doubt, row.fault,
        ...row.conditions].filter(Boolean).join("\n").toLowerCase();
      texts.set(row, known);
    }
    return known;
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
    const lasted = row.since ? `for ${Format.age(row.since, context.at)}` : "";
    const second = [lasted, row.conditions.join(", ")].filter(Boolean).join(" · ");
    const title = row.since ? `since ${Format.full(row.since)}` : null;
    return [Draw.statusOf(row), second ? el("div", { class: "second", title }, second) : null];
  }

  function progressCell(row) {
    const part = done(row);
    if (row.step === null) return unknown(row);
    const total = row.total_steps === null ? "" : ` / ${Format.compact(row.total_steps)}`;
    const ofAll = row.total_steps === null ? "" : ` of ${Format.integer(row.total_steps)}`;
    return [el("div", { class: "steps", title: `step ${Format.integer(Format.stepsDone(row))}${ofAll}` },
      el("span", {}, `${Format.compact(Format.stepsDone(row))}${total}`),
      part === null ? null : el("span", { class: "muted" }, Format.percent(part))),
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

  function whyCell(row) {
    const told = [], bad = troubled(row);
    if (row.doubt) told.push(el("p", { class: "doubt", title: row.doubt }, "▲ ", Format.clip(row.doubt, 300)));
    if (row.reason) {
      told.push(el("p", { class: bad ? "reason" : "calm", title: row.reason },
        Format.clip(row.reason, bad ? 600 : 200)));
    }
    told.push(asides(row));
    if (bad && told.every((one) => one === null)) told.push(unknown(row));
    return el("div", { class: "why" }, el("div", { class: "what" }, told),
      bad && row.action ? el("p", { class: "todo", title: row.action }, Format.clip(row.action, 600)) : null);
  }

  /** A name that may be broken behind its underscores. */
  const breakable = (name) => name.split("_").map((part, index) => (index ? ["_", el("wbr"), part] : part));

  function asides(row) {
    const told = [];
    if (row.fault) told.push(`not all could be read: ${Format.clip(row.fault, 200)}`);
    if (row.pending > 0) told.push(`${Format.count(row.pending, "alert")} waiting to be sent`);
    if (row.recorded === false) told.push("no pass has recorded it yet");
    return told.length ? el("p", { class: "aside" }, told.join(" · ")) : null;
  }

  const speed = (row) => Format.value(row.tokens_per_s) ?? Format.value(row.steps_per_s);

  /* key, title: of the column; by: what it is sorted by, null comes last always (a column without it cannot be sorted);
   * down: whether its first press sorts from large to small; facts: what its cell is made of; draw: what is in it;
   * none: whether a card leaves it out; label: its name on a card. */
  const COLUMNS = Object.freeze([
    { key: "status", title: "Status", hint: "who needs people first", by: (_row, rank) => rank,
      facts: (row, context) => [row.shown, row.doubt, row.conditions, row.since,
        row.since && Format.age(row.since, context.at)], draw: statusCell },
    { key: "run", title: "Run", by: (row) => row.run_id.toLowerCase(), facts: (row) => [row.host],
      draw: (row) => [Draw.runLink(row.run_id),
        row.host ? el("div", { class: "second one-line", title: row.host }, Format.clip(row.host, 200)) : null] },
    { key: "phase", title: "Phase", by: (row) => row.phase && row.phase.toLowerCase(),
      facts: (row) => [row.phase, row.complete],
      draw: (row) => (row.phase ? el("span", { class: "two-lines", title: row.phase }, Format.clip(row.phase, 120))
        : unknown(row)),
      none: (row) => !row.phase },
    { key: "progress", title: "Progress", down: true, by: done,
      facts: (row) => [Format.stepsDone(row), row.total_steps, row.complete], draw: progressCell, none: (row) => row.step === null },
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
    { key: "attempt", title: "Try", hint: "attempt", down: true, by: (row) => row.attempt,
      facts: (row) => [row.attempt], draw: (row) => Format.integer(row.attempt), none: (row) => row.attempt === 1 },
    { key: "strip", title: "24 h", hint: "statuses of the last 24 hours; sorts by the latest change",
      by: (row) => newestFirst(row.since),
      facts: (row, context) => [row.strip, Math.floor(context.at / 300000)],
      draw: (row, context) => Draw.strip(row.strip, context.at), none: (row) => row.strip.length === 0 },
    { key: "cause", title: "Cause", by: (row) => row.cause && row.cause.toLowerCase(), facts: (row) => [row.cause],
      draw: (row) => (row.cause
        ? el("span", { class: "cause", title: row.cause }, breakable(Format.clip(row.cause, 120))) : ""),
      none: (row) => !row.cause },
    { key: "why", title: "What happened, and what to do", by: null,
      facts: (row) => [row.shown, row.reason, row.action, row.doubt, row.fault, row.pending, row.recorded,
        row.complete],
      draw: whyCell, none: (row) => !troubled(row) && !row.fault && !row.pending && row.recorded },
  ]);

  /** A row's element, which knows how to follow its run: .update(row, { at, staleS }). */
  function make(row, context) {
    const cells = COLUMNS.map(({ key, label }) => el("td", { class: `c-${key}`, role: "cell", "data-label": label }));
    const known = COLUMNS.map(() => null);
    const line = el("tr", { role: "row", data: { run: row.run_id } }, cells);
    let drawn = null, drawnAt = null;

    function update(now, around) {
      if (now === drawn && around.at === drawnAt) return;
      drawn = now;
      drawnAt = around.at;
      const classes = `n-${Draw.looksOf(now).name}${lives(now) ? "" : " ended"}`;
      if (line.className !== classes) line.className = classes;
      COLUMNS.forEach((column, index) => {
        const facts = JSON.stringify(column.facts(now, around));
        if (facts === known[index]) return;
        known[index] = facts;
        const held = cells[index].contains(document.activeElement);
        put(cells[index], column.draw(now, around));
        // Who was on the link is on it still.
        if (held) cells[index].querySelector("a")?.focus({ preventScroll: true });
        if (column.none) cells[index].classList.toggle("nothing", column.none(now));
      });
    }
    update(row, context);
    return { line, update, get row() { return drawn; } };
  }

  return Object.freeze({ COLUMNS, make, text, needs });
})();

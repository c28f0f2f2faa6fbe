"use strict";
/* Data: what the page knows. It fetches and polls where the page is served, and unpacks what is embedded in the file.
 *
 *   Data.start()                     once, by app.js
 *   Data.rows, Data.row(id)          rows of the fleet, in the order in which they need people
 *   Data.fleet                       the fleet document without its runs; null until there is one
 *   Data.run(id)                     → Promise of a run document; rejects with a Data.Fault: message, advice, status
 *                                      (404: no such run; 0: the server does not answer; null: not in this file)
 *   Data.curves(id, by, part)        → Promise of a run's curves, finer than the document's; Data.compared(ids, by, part,
 *                                      only) of runs beside each other with one curve each; reject likewise
 *   Data.causes()                    → Promise of what failures cost, as `lastbeat causes --json` has it; rejects likewise
 *   Data.subscribe(listener)         → a function that ends it. listener({ kind: "fleet", full, changed: Set of ids,
 *                                      gone: [id], before: Map id → row }) after each answer, also where nothing
 *                                      changed (a run view asks anew then); listener({ kind: "state" }) when
 *                                      Data.state is another
 *   Data.state                       { mode: "loading" | "live" | "lost" | "file" | "broken", paused, since, message,
 *                                      advice, retryAt }; times in milliseconds of this machine's clock
 *   Data.now()                       milliseconds: the store's time that ages are measured against; null until known.
 *                                      It stands still between answers, for a beat may have come meanwhile.
 *   Data.age()                       seconds since then; of the file: since it was made
 *   Data.fresh                       whether that is as short as it gets
 *   Data.askFor(keys)                names whose values rows are to have, see filter.js; Data.fleet.keys are all there are
 *   Data.want(ids)                   which runs people see right now; the server reads those first
 *   Data.pause(yes), Data.again()    stop and go on; ask now
 *   Data.mayOperate                  whether this browser was let in by the token to operate
 *   Data.change(asked)               → Promise of what became of it, as dashboard/changes.py answers; rejects as Data.run
 */
const Data = (() => {
  const TIMEOUT_MS = 60000;
  const LONGEST_WAIT_S = 60;
  const MOST_WANTED = 60, MOST_KEYS = 24;
  const listeners = new Set();
  const rows = new Map();
  let order = [], list = [], fleet = null, embeddedRuns = null, embeddedCauses = null, receivedAt = 0, firstVersion = null;
  let keys = [], keysOf = "", wanted = [], timer = null, asking = null, failures = 0, embedded = false, mayOperate = false;
  let state = Object.freeze({ mode: "loading", paused: false, since: null, message: "", advice: "", retryAt: null });

  /** Why something could not be had, and what people can do. */
  class Fault extends Error {
    constructor(message, advice = "", status = null) {
      super(message);
      this.advice = advice;
      this.status = status;
    }
  }

  function tell(change) {
    for (const listener of [...listeners]) {
      try {
        listener(change);
      } catch (fault) {
        console.error(fault);  // One view that fails must not stop the others, nor the polling.
      }
    }
  }

  function become(change) {
    state = Object.freeze({ ...state, ...change });
    tell({ kind: "state" });
  }

  // ---- the document -------------------------------------------------------------------------------------------

  function take(told) {
    if (told === null || typeof told !== "object" || told.schema !== 1 || !Array.isArray(told.runs)) {
      throw new Fault("The data is from another version of lastbeat than this page.", "Reload the page.");
    }
    const full = told.since === null || told.since === undefined || fleet === null;
    const old = new Map(rows), ids = told.runs.map((row) => row.run_id), changed = new Set(ids);
    const before = new Map(ids.filter((id) => old.has(id)).map((id) => [id, old.get(id)]));
    if (full) rows.clear();
    const gone = full ? order.filter((id) => !changed.has(id)) : told.gone || [];
    for (const id of gone) rows.delete(id);
    for (const row of told.runs) rows.set(row.run_id, row);
    order = full ? [...rows.keys()] : reordered(order.filter((id) => rows.has(id) && !changed.has(id)), told.runs);
    list = order.map((id) => rows.get(id));
    const { runs: _left, ...rest } = told;
    const first = fleet === null;
    fleet = Object.freeze(rest);
    firstVersion ??= fleet.version;
    receivedAt = Date.now();
    tell({ kind: "fleet", full, first, changed, gone, before });
  }

  /** Rows that did not change keep their order among themselves; the others go to the places that their ranks tell. */
  function reordered(standing, moved) {
    const placed = [...moved].sort((one, other) => one.rank - other.rank);
    const result = [];
    let next = 0;
    for (const row of placed) {
      while (result.length < row.rank && next < standing.length) result.push(standing[next++]);
      result.push(row.run_id);
    }
    return result.concat(standing.slice(next));
  }

  // ---- the server ---------------------------------------------------------------------------------------------

  const get = (path) => ask(path, { headers: { Accept: "application/json" } });

  /** The mode stays "cors": in any other one browsers hide the origin that the server compares. */
  const change = (asked) => ask("api/changes", { method: "POST", body: JSON.stringify(asked),
    headers: { Accept: "application/json", "Content-Type": "application/json", "X-Lastbeat": "page" } });

  async function ask(path, options) {
    const stop = new AbortController();
    const alarm = setTimeout(() => stop.abort(), TIMEOUT_MS);
    let answer, body;
    try {
      answer = await fetch(path, { signal: stop.signal, cache: "no-store", redirect: "error",
        credentials: "same-origin", ...options });
      if (path.startsWith("data/fleet") && answer.ok) mayOperate = answer.headers.get("X-Lastbeat-May") === "operate";
      body = await answer.json();
    } catch (fault) {
      if (answer && answer.ok === false) body = null;
      else if (answer) throw new Fault("The server's answer cannot be read.", "Reload the page.", answer.status);
      else {
        throw new Fault("The server does not answer.",
          "Is `lastbeat dashboard` still running, and can it be reached?", 0);
      }
    } finally {
      clearTimeout(alarm);
    }
    if (answer.ok) return body;
    const told = body && typeof body.error === "string" ? body.error : `The server refuses (${answer.status}).`;
    const advice = body && typeof body.advice === "string" ? body.advice
      : answer.status === 401 ? "Reload the page and enter the token."
      : answer.status === 403 ? "Open the address that `lastbeat dashboard` printed." : "";
    throw new Fault(told, advice, answer.status);
  }

  function question() {
    const asked = new URLSearchParams();
    // Rows that stand have the values of other keys, or none.
    if (fleet !== null && typeof fleet.seq === "number" && fleet.epoch && keysOf === keys.join(",")) {
      asked.set("since", String(fleet.seq));
      asked.set("epoch", fleet.epoch);
    }
    if (wanted.length) asked.set("look", wanted.join(","));
    if (keys.length) asked.set("keys", keys.join(","));
    const text = asked.toString().replaceAll("%2C", ",");
    return text ? `data/fleet?${text}` : "data/fleet";
  }

  async function poll() {
    clearTimeout(timer);
    timer = null;
    if (asking !== null || embedded || state.paused || document.hidden) return;
    asking = get(question());
    const askedFor = keys.join(",");
    let wait;
    try {
      take(await asking);
      keysOf = askedFor;
      failures = 0;
      // While documents are still being read there is more to see soon; the server's own rounds set the pace.
      const usual = Math.min(LONGEST_WAIT_S, Math.max(1, Number(fleet.interval_s) || 15));
      wait = fleet.at === null ? 1 : fleet.unread > 0 || (!isFresh() && !fleet.fault) ? Math.min(3, usual) : usual;
      if (state.mode !== "live") become({ mode: "live", since: null, message: "", advice: "", retryAt: null });
    } catch (fault) {
      failures += 1;
      wait = Math.min(LONGEST_WAIT_S, 2 ** Math.min(failures, 6)) * (0.85 + Math.random() * 0.3);
      become({ mode: "lost", since: state.mode === "lost" ? state.since : Date.now(), message: fault.message,
        advice: fault.advice || "", retryAt: Date.now() + wait * 1000 });
    } finally {
      asking = null;
    }
    clearTimeout(timer);
    timer = setTimeout(poll, keysOf === keys.join(",") || failures ? wait * 1000 : 0);
  }

  /** What was asked for once stays, so that a word that is typed again has its values at once. */
  function askFor(names) {
    const now = [...new Set(names)].filter((name) => !name.includes(",")), all = [...new Set([...keys, ...now])];
    const next = (all.length > MOST_KEYS ? now : all).slice(0, MOST_KEYS);
    if (next.join(",") === keys.join(",")) return;
    keys = next;
    poll();
  }

  // ---- the file -----------------------------------------------------------------------------------------------

  async function unpack(text) {
    if (typeof DecompressionStream !== "function") {
      throw new Fault("This browser cannot unpack the data in this file.", "Open it in a browser of 2024 or later.");
    }
    const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).json();
  }

  async function start() {
    const text = (document.getElementById("data")?.textContent ?? "").trim();
    embedded = text.length > 0 && !text.startsWith("<");
    if (!embedded) {
      document.addEventListener("visibilitychange", () => {
        if (document.hidden) return;
        // Before old rows are painted, the head says how old they are.
        tell({ kind: "state" });
        poll();
      });
      window.addEventListener("online", again);
      await poll();
      return;
    }
    try {
      const whole = await unpack(text);
      embeddedRuns = whole.runs || {};
      embeddedCauses = whole.causes ?? null;
      state = Object.freeze({ ...state, mode: "file" });
      take(whole.fleet);
      tell({ kind: "state" });
    } catch (fault) {
      const known = fault instanceof Fault;
      become({ mode: "broken", message: known ? fault.message : "The data in this file cannot be read.",
        advice: known ? fault.advice : "It may have been cut short on its way; the next pass writes it anew." });
    }
  }

  async function run(id) {
    if (!embedded) return get(`data/runs/${encodeURIComponent(id)}`);
    if (embeddedRuns && Object.hasOwn(embeddedRuns, id)) return embeddedRuns[id];
    throw rows.has(id)
      ? new Fault("This file does not hold all about this run.", command("show", id), null)
      : new Fault("There is no such run in this file.", command("show", id), 404);
  }

  /** What is asked of curves: the axis, a part of it (null for all), and what else. */
  function ofCurves(by, part, more = {}) {
    return new URLSearchParams({ by, ...(part ? { from: part[0], to: part[1] } : {}), ...more }).toString().replaceAll("%2C", ",");
  }

  const curves = (id, by, part) => get(`data/runs/${encodeURIComponent(id)}/curves?${ofCurves(by, part)}`);

  async function compared(ids, by, part, only) {
    if (!embedded) return get(`data/compare?${ofCurves(by, part, { only, runs: ids.join(",") })}`);
    throw new Fault("This file does not hold what compares runs.", `In a terminal: \`lastbeat compare ${ids.join(" ")}\``);
  }

  async function causes() {
    if (!embedded) return get("data/causes");
    if (embeddedCauses !== null) return embeddedCauses;
    throw new Fault("This file does not hold what failures cost.", "In a terminal: `lastbeat causes`");
  }

  /** What tells more of a run in a terminal, for any shell, whatever root is in its settings. */
  function command(verb, id) {
    const root = fleet?.root ?? "";
    const quoted = /^[\w@%+=:,./-]+$/.test(root) ? root : `'${root.replaceAll("'", "'\\''")}'`;
    const [options, names] = [true, false].map((is) => verb.split(" ").filter((word) => word.startsWith("-") === is));
    return ["lastbeat", ...names, ...(root ? ["--root", quoted] : []), ...options, ...(id.startsWith("-") ? ["--"] : []), id].join(" ");
  }

  function again() {
    failures = 0;
    poll();
  }

  function pause(yes) {
    become({ paused: yes });
    if (!yes) again();
  }

  function now() {
    return fleet === null ? null : Format.moment(fleet.at) ?? Format.moment(fleet.made_at);
  }

  function age() {
    if (fleet === null) return null;
    const made = Format.moment(fleet.made_at), seen = Format.moment(fleet.at);
    if (embedded) return made === null ? null : Math.max(0, (Date.now() - made) / 1000);
    if (seen === null) return null;
    return (Math.max(0, (made ?? seen) - seen) + Math.max(0, Date.now() - receivedAt)) / 1000;
  }

  /** Whether what is known is as new as it can be: who opens a page that nobody looked at for a while has to wait. */
  function isFresh() {
    const seconds = age();
    return seconds !== null && seconds <= Math.max(20, 2.5 * (Number(fleet.interval_s) || 0));
  }

  function subscribe(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  return Object.freeze({
    Fault, start, run, curves, compared, causes, command, again, pause, now, age, subscribe, change, askFor,
    want: (ids) => { wanted = ids.slice(0, MOST_WANTED); },
    row: (id) => rows.get(id) ?? null,
    get rows() { return list; },
    get fleet() { return fleet; },
    get state() { return state; },
    /** Always so in a file, which says itself how old it is. */
    get fresh() { return embedded || isFresh(); },
    get embedded() { return embedded; },
    get mayOperate() { return mayOperate; },
    /** The server has been updated since this page was loaded. */
    get outdated() { return fleet !== null && fleet.version !== firstVersion; },
  });
})();

"use strict";
/* App: which view is shown, the header and the banners above it, the theme, and what a screen reader is told.
 *
 * The view is in the address: #/ is the fleet (with its filter: #/?q=oom&status=FAILED), #/runs/ID is one run, #/compare
 * several, #/causes what failures cost. A view is shown by Fleet.show(main), Run.show(main, id), Compare.show(main) or
 * Losses.show(main), which returns a function that is called before another view comes. App.announce(text) tells screen readers; "themechange" is dispatched on document when the colours are
 * others.
 */
const App = (() => {
  const { el, put, setText } = Draw;
  const main = document.getElementById("main");
  const [fresh, pause, theme, banners, announcements, root, skip] =
    ["fresh", "pause", "theme", "banners", "announcements", "root", "skip"].map((id) => document.getElementById(id));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let leave = null, shown = null, fleetHash = "#/", told = [], tellTimer = null;

  // ---- what a screen reader is told ---------------------------------------------------------------------------

  function announce(text) {
    told.push(text);
    clearTimeout(tellTimer);
    tellTimer = setTimeout(() => {
      setText(announcements, told.slice(-4).join(". "));
      told = [];
    }, 400);
  }

  function announceChanges(change) {
    const others = [];
    for (const id of change.changed) {
      const row = Data.row(id), before = change.before.get(id);
      if (row && (before ? before.shown !== row.shown : !change.first && Rows.needs(row))) others.push(row);
    }
    if (others.length === 0) return;
    if (others.length <= 3) others.forEach((row) => announce(`run ${row.run_id} is ${row.shown} now`));
    else {
      const counted = new Map();
      for (const row of others) counted.set(row.shown, (counted.get(row.shown) ?? 0) + 1);
      const each = [...counted].map(([name, many]) => `${many} ${name} now`).join(", ");
      announce(`${others.length} runs changed: ${each}`);
    }
  }

  /** Of each view: what the first link leads to, and what shows it. */
  const VIEWS = { fleet: ["runs", (node, _id, first) => Fleet.show(node, { first })], run: ["run", (node, id) => Run.show(node, id)],
    causes: ["causes", (node) => Losses.show(node)], compare: ["curves", (node) => Compare.show(node)] };

  // ---- which view ---------------------------------------------------------------------------------------------

  function route() {
    const hash = location.hash || "#/";
    const found = /^#\/runs\/([^/?]+)(?:\?|$)/.exec(hash);
    let id = null;
    try {
      id = found ? decodeURIComponent(found[1]) : null;
    } catch {
      id = null;
    }
    const name = id !== null ? "run" : /^#\/(causes|compare)(?:\?|$)/.exec(hash)?.[1] ?? "fleet", fleet = name === "fleet";
    const next = id === null ? name : `run ${id}`;
    if (fleet) fleetHash = hash;
    if (next === shown) {
      if (fleet) Fleet.follow();
      return;
    }
    const first = shown === null, [skips, show] = VIEWS[name];
    if (leave) leave();
    shown = next;
    put(main);
    if (!fleet) window.scrollTo(0, 0);
    if (id !== null) Data.want([id]);
    leave = show(main, id, first);
    if (!fleet && !first) main.focus({ preventScroll: true });
    setText(skip, `Skip to the ${skips}`);
    title();
  }

  /** Back to the fleet, with the filter that it had. */
  function back() {
    location.hash = fleetHash;
  }

  function title() {
    const many = Data.fleet === null ? 0 : Data.rows.filter(Rows.needs).length;
    const count = many ? `(${many}) ` : "";
    document.title = shown?.startsWith("run ") ? `${count}${shown.slice(4)} · lastbeat`
      : `${count}lastbeat · ${shown ?? "fleet"}`;
  }

  // ---- header and banners -------------------------------------------------------------------------------------

  function header() {
    const { mode, paused } = Data.state, age = Data.age(), unread = Data.fleet?.unread ?? 0;
    const more = unread > 0 ? `, reading ${Format.integer(unread)} more` : "";
    const old = age === null ? "" : Format.duration(age);
    const words = {
      loading: ["reading", "the fleet …"],
      live: paused ? ["paused", old && `as of ${old} ago`]
        : Data.fleet?.fault ? ["store away", old && `as of ${old} ago`]
        : Data.fresh ? ["live", old ? `as of ${old} ago${more}` : "reading …"]
        : ["refreshing", old ? `as of ${old} ago${more}` : "…"],
      lost: ["no answer", old && `as of ${old} ago`],
      file: ["file", old ? `made ${old} ago` : "made at an unknown time"],
      broken: ["file", "unreadable"],
    }[mode];
    const off = mode === "lost" || mode === "broken" || (mode === "live" && (paused || Boolean(Data.fleet?.fault)));
    const waits = mode === "live" && !off && !Data.fresh;
    fresh.classList.toggle("off", off);
    fresh.classList.toggle("waits", waits);
    Morph.put(fresh, el("span", { class: "dot", "aria-hidden": "true" },
      mode === "file" || mode === "broken" ? "▤" : off ? "○" : waits ? "◌" : "●"),
    " ", el("span", { class: "mode" }, words[0]), " ", el("span", { class: "when" }, words[1]));
    const seen = Data.embedded ? Data.fleet?.made_at : Data.fleet?.at;
    if (seen) fresh.title = `${Data.embedded ? "made" : "the store was last seen"} ${Format.full(seen)}`;
    setText(root, Format.middle(Data.fleet?.root ?? "", 72));
    root.title = Data.fleet?.root ?? "";
    pause.hidden = Data.embedded || Data.fleet === null;
    setText(pause, paused ? "Go on" : "Pause");
  }

  function warnings() {
    const found = [], { mode, since, message, advice, retryAt, paused } = Data.state, fleet = Data.fleet;
    const say = (kind, lead, todo) => found.push({ kind, lead, todo });
    if (mode === "broken") say("bad", message, advice);
    if (mode === "lost" && !paused) {
      const wait = Math.max(0, Math.ceil((retryAt - Date.now()) / 1000));
      say("bad", `${message} ${fleet ? `What you see is as of ${Format.duration(Data.age())} ago.` : ""}`,
        `${advice} ${wait > 0 ? `Asked since ${Format.clock(since / 1000)}; again in ${wait} s.` : "Asking again …"}`);
    }
    if (fleet === null) return found;
    if (fleet.fault) {
      const stood = fleet.fault.since ? ` since ${Format.time(fleet.fault.since)}` : "";
      const asOf = fleet.at ? `What you see is as of ${Format.time(fleet.at, Date.now(), true)}.`
        : "It has not been seen yet.";
      say("bad", `The store cannot be seen${stood}: ${Format.clip(fleet.fault.reason, 400)}`,
        `${asOf} ${Format.clip(fleet.fault.advice || "", 400)}`);
    }
    const age = Data.age();
    if (mode === "file" && age !== null && age > Math.max(1800, 3 * (Number(fleet.interval_s) || 0))) {
      say("warn", `This file was made ${Format.duration(age)} ago.`,
        "What happened since is not in it, and the passes that write it may have stopped. `lastbeat fleet` shows the " +
        "fleet as it is now.");
    }
    const { last_pass_at: last, overdue, known, recorded_at: recorded } = fleet.watching || {};
    if (recorded) {
      say("warn", "No sweep watches this fleet.",
        `\`lastbeat watch\` recorded one run ${Format.age(recorded, Data.now())} ago. Start \`lastbeat sweep\` to have ` +
        "all of them watched.");
    } else if (overdue) {
      say("warn", `Nothing watches: no pass has left its mark for ${Format.age(last, Data.now())}.`,
        "Statuses may be out of date, and no alerts are sent. See why it stopped, and start `lastbeat sweep` again.");
    } else if (!last && known !== false && Data.rows.length > 0) {
      say("warn", "Nothing watches this fleet: no pass has left its mark.",
        "Statuses are what a first look says, and no alerts are sent. Start `lastbeat sweep`, or run it from cron.");
    }
    if (Data.outdated) say("info", "lastbeat has been updated.", "Reload this page.");
    return found;
  }

  /** Text in which `code` is set apart. */
  const marked = (text) => text.split("`").map((part, index) => (index % 2 ? el("code", {}, part) : part));

  let standing = "";
  function showWarnings() {
    const found = warnings(), kinds = JSON.stringify(found.map((one) => [one.kind, one.lead.replace(/\d+/g, "")]));
    if (kinds !== standing) {
      standing = kinds;
      found.filter((one) => one.kind === "bad").forEach((one) => announce(one.lead));
      banners.hidden = found.length === 0;
    }
    Morph.put(banners, found.map((one) => el("div", { class: `banner ${one.kind}` },
      el("span", { class: "sign", "aria-hidden": "true" }, one.kind === "info" ? "·" : "▲"),
      el("span", { class: "lead" }, marked(one.lead)), el("span", { class: "advice" }, marked(one.todo)))));
  }

  // ---- theme --------------------------------------------------------------------------------------------------

  const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";

  function showTheme() {
    setText(theme, isDark() ? "Light" : "Dark");
    theme.setAttribute("aria-label", isDark() ? "Light colours" : "Dark colours");
    document.dispatchEvent(new CustomEvent("themechange"));
  }

  function remembered() {
    try {
      return localStorage.getItem("lastbeat-theme");
    } catch {
      return null;  // Some browsers keep nothing for a page from a file.
    }
  }

  function otherTheme() {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("lastbeat-theme", document.documentElement.dataset.theme);
    } catch {
      // It holds until the page is loaded anew.
    }
    showTheme();
  }

  // ---- beginning ----------------------------------------------------------------------------------------------

  function keys(event) {
    if (event.key !== "Escape" || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (shown === null || shown === "fleet" || /^(?:INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    event.preventDefault();
    back();
  }

  function start() {
    const kept = remembered();
    if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
    theme.addEventListener("click", otherTheme);
    dark.addEventListener("change", showTheme);
    pause.addEventListener("click", () => Data.pause(!Data.state.paused));
    skip.addEventListener("click", (event) => {
      event.preventDefault();
      main.focus();
    });
    document.addEventListener("keydown", keys);
    window.addEventListener("hashchange", route);
    Data.subscribe((change) => {
      if (change.kind === "fleet") {
        announceChanges(change);
        title();
      }
      header();
      showWarnings();
    });
    setInterval(() => {
      if (document.hidden) return;
      header();
      showWarnings();
    }, 1000);
    showTheme();
    header();
    showWarnings();
    Data.start();
    route();
  }

  return Object.freeze({ start, announce, back, marked, fleetAt: (hash) => { fleetHash = hash; } });
})();

App.start();

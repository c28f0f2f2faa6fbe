"use strict";
/* Losses: what to mend first. Which causes, nodes, users and ranges of steps cost how many hours, as bars in tables.
 *
 * Losses.show(main) shows it and returns what ends it. It asks once, and again only when somebody wants that: what
 * failures cost changes slowly, and finding it out takes a read for each run.
 */
const Losses = (() => {
  const { el, put, muted } = Draw;
  const SHOWN = 12;
  const TABLES = [
    ["causes", "Which causes", "Cause", "cause"],
    ["nodes", "On which nodes", "Node", "node"],
    ["users", "Whose runs", "User", "user"],
    ["steps", "At which steps", "Steps", "step-range"],
  ];
  const NAMELESS = { nodes: "not known", users: "no owner is named", steps: "not known" };

  const hours = (value) => (value < 1000 ? `${value.toFixed(1)} h` : `${Format.integer(Math.round(value))} h`);

  /** Hours in words: what is not known is not zero. */
  function amount(value, whole) {
    if (typeof value !== "number") return "not known";
    return whole ? hours(value) : `${hours(value)} at least`;
  }

  function bar(group, top) {
    const width = (value) => `${((100 * (value ?? 0)) / top).toFixed(2)}%`;
    const part = (use, value) => (value > 0 ? el("span", { class: `use-${use}`, style: { width: width(value) } }) : null);
    return el("span", { class: "loss-bar", "aria-hidden": "true" },
      part("lost", group.thrown_away_hours), part("unnoticed", group.dead_hours),
      group.at_least ? el("span", { class: "use-unknown open-end" }) : null);
  }

  function name(kind, group) {
    if (kind !== "causes") return el("span", { class: "what" }, group.name ?? NAMELESS[kind]);
    const type = group.error_type ?? "no cause known";
    return [
      el("span", { class: "what" }, el("code", {}, type), group.signal ? [" · ", el("code", {}, group.signal)] : null),
      group.said ? el("span", { class: "said", title: group.said }, Format.clip(group.said, 160)) : null,
      fingerprints(group),
    ];
  }

  /** One mistake each: a cause often has several wordings. */
  function fingerprints(group) {
    const each = group.fingerprints ?? [];
    if (each.length < 2) return null;
    const more = group.fingerprints_left_out ?? 0;
    return el("details", { class: "expand" },
      el("summary", {}, Format.count(each.length + more, "fingerprint")),
      el("ul", { class: "plain" }, each.map((one) => el("li", {},
        `${Format.count(one.failures, "failure")}, ${amount(one.lost_hours, !one.at_least)}`,
        one.last_run ? [" ", Draw.runLink(one.last_run)] : null,
        one.said ? el("span", { class: "said" }, Format.clip(one.said, 160)) : null)),
      more > 0 ? el("li", { class: "muted" }, `and ${Format.integer(more)} more`) : null));
  }

  function row(kind, group, top, now) {
    const known = (of) => of === group.failures, number = (text) => el("td", { class: "number" }, text);
    return el("tr", {},
      el("th", { scope: "row" }, name(kind, group)), el("td", { class: "bars" }, bar(group, top)),
      number(amount(group.lost_hours, !group.at_least)),
      number(amount(group.thrown_away_hours, known(group.thrown_away_known_of))),
      number(amount(group.dead_hours, known(group.dead_known_of))),
      number(Format.integer(group.failures)), number(Format.integer(group.runs)),
      el("td", {}, group.last_at && Draw.ago(group.last_at, now), group.last_run && [" ", Draw.runLink(group.last_run)]));
  }

  function table(told, [kind, title, head, by], now) {
    const groups = told[kind] ?? [];
    if (groups.length === 0) return null;
    const top = Math.max(...groups.map((each) => each.lost_hours ?? 0), 1e-9);
    const more = groups.length - SHOWN + (told.left_out?.[kind] ?? 0);
    const heads = [head, null, "Lost", "Thrown away", "Dead", "Failures", "Runs", "Latest"];
    return el("section", { class: "losses", "data-key": kind },
      el("h2", {}, title),
      el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": title },
        el("table", {},
          el("thead", {}, el("tr", {}, heads.map((text, index) => text === null ? el("td", {})
            : el("th", { scope: "col", class: index > 1 && index < 7 ? "number" : null }, text)))),
          el("tbody", {}, groups.slice(0, SHOWN).map((group) => row(kind, group, top, now))))),
      more > 0 && muted(`and ${Format.integer(more)} more: `, el("code", {}, `lastbeat causes --by ${by}`)));
  }

  function legend() {
    return Draw.list([["lost", "Training thrown away"],
      ["unnoticed", "Dead, until it was seen and, if a restart may help, started again"], ["unknown", "And more that is not known"],
    ].map(([use, words]) => [el("span", { class: `use use-${use}`, "aria-hidden": "true" }), words]), "uses");
  }

  function head(told, now) {
    const total = told.total, since = Format.time(told.since, now);
    if (!total || total.failures === 0) return el("p", { class: "lead" }, `No failure is recorded since ${since}.`);
    const of = `${Format.count(total.failures, "failure")} of ${Format.count(total.runs, "run")} since ${since}. `;
    return el("p", { class: "lead" }, of, el("strong", {}, `Lost: ${amount(total.lost_hours, !total.at_least)}`),
      " of wall time.");
  }

  function draw(main, told) {
    const now = Format.moment(told.at) ?? Date.now();
    put(main,
      head(told, now),
      told.total?.failures > 0 ? legend() : null,
      TABLES.map((each) => table(told, each, now)),
      (told.notes ?? []).length > 0 ? el("div", { class: "notes" }, told.notes.map((text) => el("p", {}, text))) : null,
      muted("As of ", Draw.time(told.at, Date.now()), ". In a terminal: ", el("code", {}, "lastbeat causes"), "."));
  }

  function fault(main, why, again) {
    put(main, el("div", { class: "empty" }, el("p", {}, why.message), why.advice ? el("p", {}, App.marked(why.advice)) : null,
      Data.embedded ? null : el("p", {}, el("button", { type: "button", on: { click: again } }, "Ask again"))));
  }

  function show(main) {
    const body = el("div", { class: "causes" });
    let ended = false, drawn = false;
    put(main, el("div", { class: "fleet" }, el("div", { class: "causes-head" },
      el("h1", {}, "What to mend first"), el("a", { href: "#/" }, "All runs")), body));
    async function ask() {
      put(body, muted("Reading what is recorded …"));
      try {
        const told = await Data.causes();
        if (!ended) draw(body, told);
      } catch (why) {
        if (!ended) fault(body, why, ask);
      }
    }
    /** A file is unpacked after the view is shown. */
    function begin() {
      if (drawn || Data.state.mode === "loading") return;
      drawn = true;
      ask();
    }
    const unsubscribe = Data.subscribe(begin);
    begin();
    return () => {
      ended = true;
      unsubscribe();
    };
  }

  return Object.freeze({ show });
})();

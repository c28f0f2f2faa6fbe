"use strict";
/* Fleet: the table of all runs, who needs people on top; its filter, its counts by status, its order.
 *
 * Fleet.show(main) shows it and returns what ends it; Fleet.follow() takes the filter from the address again.
 *
 * Rows change where they stand. They change places only while nobody points at the table, is in it with the keyboard or
 * has text in it selected: a row that jumps away under the pointer is worse than one that stands where it stood.
 * Until then a button offers the new order.
 */
const Fleet = (() => {
  const { el, put, setText } = Draw;
  const STEP = 150;
  const FIRST = 20, NEXT = 40, MOST_KEPT = 1000;
  /** Beyond so many, rows come only when they are asked for: who scrolls that far is better served by the filter. */
  const BY_ITSELF = 600;
  const CALM_MS = 1200;
  /** A pointer that only passes over a row asks for nothing. */
  const POINT_MS = 120;
  const ALL = "all";
  // What stands here stays while a run is looked at, and is there again when people come back.
  let limit = STEP, left = null;
  let view = null;

  // ---- drawing ------------------------------------------------------------------------------------------------

  const context = () => ({ at: Data.now() ?? Date.now(), staleS: Number(Data.fleet?.stale_s) || 0 });

  /** Somebody points at the table, is in it with the keyboard, holds a selection in it, or has just touched it. */
  function busy() {
    const { table } = view;
    const selection = document.getSelection();
    return table.tBodies[0].contains(document.activeElement) || Date.now() - view.touched < 4000 ||
      (matchMedia("(hover: hover)").matches && table.tBodies[0].matches(":hover")) ||
      (selection !== null && !selection.isCollapsed && table.contains(selection.anchorNode));
  }

  /** Shows what is known now. `moved`: people asked for it, so rows may change places at once. */
  function refresh(moved) {
    if (view === null) return;
    if (Data.fleet === null) return showAround();
    view.quiet.update(Data.fleet.silences ?? []);
    view.columns.update();
    const ids = Choice.ids();
    const order = Choice.group ? Groups.by(ids, Choice.group) : Choice.folds ? Groups.folded(ids) : ids.map((id) => ({ key: `run ${id}`, id, member: false }));
    const held = !moved && view.order.length > 0 && busy();
    const differs = order.length !== view.order.length ||
      order.some((each, index) => each.key !== view.order[index].key);
    view.groups = new Map(order.filter((each) => each.rows).map((each) => [each.key, each.rows]));
    view.many = ids.length;
    if (!held) view.order = order;
    view.reorder.hidden = !(held && differs);
    // What is in sight first: a key that was pressed must not wait for what is not.
    showSoon(moved ? FIRST : limit);
    showCounts(ids.length);
    showAround();
    showHint();
    showCompare();
  }

  /** Other columns make other heads, and rows anew. */
  function showHeads() {
    if (view.headed === Choice.shown) return;
    const custom = Choice.shown !== Rows.COLUMNS;
    empty();
    view.lines.clear();
    view.headed = Choice.shown;
    view.heads = new Map(Choice.shown.filter((column) => column.title !== null).map(({ key, style, title, hint, left }) => [key,
      el("th", { class: `c-${style ?? key}${left ? " pinned" : ""}`, scope: "col", role: "columnheader", style: left ? { left } : null },
        el("button", { type: "button", title: `${hint ? `${hint}; ` : ""}shift: then by this`,
          on: { click: (event) => { Choice.pressed(key, event.shiftKey); changed(); } } },
        title, el("span", { class: "arrow", "aria-hidden": "true" })),
        el("span", { class: "sizer", "aria-hidden": "true", data: { sizes: key } }))]));
    put(view.head, [...view.heads.values()]);
    view.table.classList.toggle("chosen", custom);
    view.table.style.setProperty("--wide", Choice.shown.wide ?? "0px");
    view.table.style.setProperty("--grid", Choice.shown.grid ?? "");
  }

  /** Drags the edge of a column. Where the usual ones are shown, those in sight are then the chosen ones. */
  function resize(event) {
    const { sizes: key } = event.target.dataset;
    if (!key) return;
    event.preventDefault();
    const shown = [...view.heads].filter(([, head]) => head.offsetWidth > 0).map(([name]) => name);
    const all = (Choice.names.length ? Choice.names : shown).map(Rows.parsed), began = event.clientX - view.heads.get(key).offsetWidth;
    const drag = ({ clientX, type }) => {
      const width = Math.max(Rows.LEAST_PX, clientX - began), done = type !== "pointermove";
      const names = all.map((one) => Rows.written(one.name === key ? { ...one, width } : one));
      if (done) document.removeEventListener("pointermove", drag);
      if (clientX === event.clientX) return;
      if (done || Choice.names.length === 0) {
        Choice.choose(names);
        changed();
      } else view?.table.style.setProperty("--grid", Rows.chosen(names).grid);
    };
    document.addEventListener("pointermove", drag);
    document.addEventListener("pointerup", drag, { once: true });
  }

  function showSoon(most) {
    clearTimeout(view.drawing);
    showRows(Math.min(most, limit));
    if (most < limit && most < view.order.length) view.drawing = setTimeout(() => showSoon(most + NEXT), 20);
  }

  function showRows(most) {
    showHeads();
    const { body, lines } = view, around = context();
    const shown = view.order.slice(0, most), wanted = new Set(shown.map((each) => each.key));
    giveWidth(shown);
    if (body.childElementCount > shown.length && !body.contains(document.activeElement)) empty();
    for (const line of [...body.children]) if (!wanted.has(line.dataset.key)) takeAway(line);
    let place = body.firstChild;
    for (const each of shown) {
      const known = each.name ? groupLine(each, around) : runLine(each, around);
      if (!known) continue;
      if (known.line === place) place = place.nextSibling;
      else {
        if (known.line.parentNode === null) view.seen.observe(known.line);
        body.insertBefore(known.line, place);
      }
    }
    const more = view.order.length - limit;
    view.more.hidden = more <= 0;
    if (more > 0) setText(view.more, `Show ${Format.integer(Math.min(STEP, more))} more of ${Format.integer(more)}`);
  }

  /** Names wider than this take the room of columns that each run's own view has, too. */
  const LONG_NAME = 280;
  const widths = new Map();
  let pen = null;

  /** How wide a name is, in pixels, as the table writes it. */
  function widthOf(id) {
    let known = widths.get(id);
    if (known === undefined) {
      if (pen === null) {
        pen = document.createElement("canvas").getContext("2d");
        pen.font = `600 13px ${getComputedStyle(document.body).fontFamily}`;
      }
      if (widths.size > MOST_KEPT) widths.clear();
      widths.set(id, (known = pen.measureText(id).width));
    }
    return known;
  }

  /** The column of the runs is as wide as their longest name, as far as there is room. */
  function giveWidth(shown) {
    const most = shown.reduce((wide, { id, member }) => (id ? Math.max(wide, widthOf(id) + (member ? 18 : 0)) : wide), 0);
    view.table.style.setProperty("--run", `${Math.ceil(Math.max(most, 150)) + 22}px`);
    view.table.classList.toggle("long-names", most > LONG_NAME);
  }

  function runLine({ key, id, member }, around) {
    const row = Data.row(id);
    let known = view.lines.get(key);
    if (row === null) known?.line.classList.add("gone");
    else if (!known) view.lines.set(key, (known = Rows.make(row, around, Choice.shown)));
    // What is out of sight follows when it comes into sight, as far as only its ages are others.
    else if (known.row !== row || view.inSight.has(id)) known.update(row, around);
    known?.line.classList.toggle("member", member);
    return known;
  }

  function groupLine({ key, rows }, around) {
    let known = view.lines.get(key);
    if (!known) view.lines.set(key, (known = Groups.make(key)));
    // While rows stand still a group may have lost its last run.
    const now = view.groups.get(key) ?? rows.filter((row) => Data.row(row.run_id) !== null);
    known.line.classList.toggle("gone", now.length === 0);
    if (now.length > 0) known.update(now, around);
    return known;
  }

  /** Takes all rows away at once: one by one takes longer than people notice. */
  function empty() {
    const { body, lines } = view;
    view.seen.disconnect();
    view.inSight.clear();
    body.replaceChildren();
    if (lines.size > MOST_KEPT) lines.clear();
  }

  function takeAway(line) {
    line.remove();
    view.seen.unobserve(line);
    view.inSight.delete(line.dataset.run);
    if (line.dataset.run ? Data.row(line.dataset.run) === null : !view.groups.has(line.dataset.key)) {
      view.lines.delete(line.dataset.key);
    }
  }

  function cameInSight(entries) {
    for (const { target, isIntersecting } of entries) {
      const id = target.dataset.run, row = id ? Data.row(id) : null;
      if (!id) continue;
      if (isIntersecting) view.inSight.add(id);
      else view.inSight.delete(id);
      if (isIntersecting && row !== null) view.lines.get(target.dataset.key)?.update(row, context());
    }
    Data.want([...view.inSight]);
  }

  function showCounts(many) {
    const all = Data.rows.length;
    for (const [name, chip] of view.chips) {
      const count = name === ALL ? all : Choice.counted().get(name) ?? 0;
      const pressed = name === ALL ? Choice.statuses.size === 0 : Choice.statuses.has(name);
      chip.hidden = count === 0 && !pressed && name !== Choice.NEED && name !== ALL;
      chip.setAttribute("aria-pressed", String(pressed));
      setText(chip.lastElementChild, Format.integer(count));
    }
    setText(view.found, Choice.fault ?? (Choice.some ? `${Format.integer(many)} of ${Format.count(all, "run")}` : ""));
    const { sorts } = Choice;
    for (const [key, head] of view.heads) {
      const place = sorts.findIndex((one) => one.key === key), by = sorts[place];
      if (by) head.setAttribute("aria-sort", by.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
      setText(head.querySelector(".arrow"), by ? ` ${by.down ? "▼" : "▲"}${sorts.length > 1 ? place + 1 : ""}` : "");
    }
    if (view.sortBy.value !== sorts[0].key) view.sortBy.value = sorts[0].key;
  }

  /** What is said in place of a table without rows, and below it. */
  function showAround() {
    const kind = Around.kind(view.order.length);
    view.table.hidden = kind !== "";
    view.tools.hidden = kind !== "" && kind !== "nothing";
    view.empty.hidden = kind === "" || Data.state.mode === "broken";
    if (view.empty.dataset.kind !== kind) {
      view.empty.dataset.kind = kind;
      put(view.empty, Around.instead(kind, Data.fleet?.root ?? "", clear));
    }
    const notes = Data.fleet === null ? [] : Around.notes(Data.fleet), text = JSON.stringify(notes);
    if (view.notes.dataset.text !== text) {
      view.notes.dataset.text = text;
      put(view.notes, notes.map((one) => el("p", {}, App.marked(one))));
    }
  }

  // ---- what people do -----------------------------------------------------------------------------------------

  function changed() {
    limit = STEP;
    refresh(true);
    Choice.write();
    clearTimeout(view.telling);
    view.telling = setTimeout(() => App.announce(`${Format.count(view.many, "run")} shown`), 900);
  }

  function clear() {
    Choice.words = view.input.value = "";
    Choice.statuses.clear();
    changed();
    view.input.focus();
  }

  function toggle(name) {
    if (name === ALL) Choice.statuses.clear();
    else Choice.toggle(name);
    changed();
  }

  function showMore() {
    limit += STEP;
    showSoon(limit);
  }

  function pressedMore() {
    const next = view.order[limit];
    showMore();
    view.lines.get(next?.key)?.line.querySelector("a, button").focus();
  }

  /** Opens a group, or closes it. */
  function fold(name) {
    Groups.toggle(name);
    refresh(true);
  }

  /** A press on a row opens what there is no room for in it, on a group its runs; unless text was selected in it. */
  function pressedRow(event) {
    const line = event.target.closest("tr"), selection = document.getSelection();
    if (line === null || event.target.closest("a, input") !== null) return;
    if (event.target.closest("button") === null && selection !== null && !selection.isCollapsed &&
      line.contains(selection.anchorNode)) return;
    if (!line.dataset.run) return fold(line.dataset.key);
    line.classList.toggle("open");
    showHint();
  }

  /** Offers to compare the runs that are ticked, or else those that the filter has found. */
  function showCompare() {
    const ids = Rows.ticked.size > 0 ? [...Rows.ticked] : Choice.some ? Choice.ids() : [];
    view.compare.hidden = !Compare.takes(ids);
    if (view.compare.hidden) return;
    view.compare.href = Compare.address(ids);
    setText(view.compare, `Compare ${Rows.ticked.size > 0 ? "" : "these "}${Format.count(ids.length, "run")}`);
  }

  function tick(id, yes) {
    if (yes) Rows.ticked.add(id);
    else Rows.ticked.delete(id);
    showCompare();
  }

  /** The run that is pointed at, or the keyboard is on, is told in full at the foot of the window: nothing moves. */
  function showHint() {
    const { hint, body } = view;
    const line = view.pointed?.isConnected ? view.pointed
      : body.contains(document.activeElement) ? document.activeElement.closest("tr") : null;
    const row = line?.dataset.run && !line.classList.contains("open") ? Data.row(line.dataset.run) : null;
    const told = row === null ? [] : Rows.details(row);
    hint.hidden = told.length < 2;
    view.reorder.classList.toggle("above", !hint.hidden);
    if (!hint.hidden) put(hint, el("p", { class: "of" }, Draw.statusOf(row), " ", el("b", {}, Format.clip(row.run_id, 200))), told);
  }

  function pointAt(line) {
    clearTimeout(view.pointing);
    view.pointing = setTimeout(() => {
      if (view === null || view.pointed === line) return;
      view.pointed = line;
      showHint();
    }, line === null ? 0 : POINT_MS);
  }

  function step(by) {
    const links = [...view.body.querySelectorAll(".run-link, .group-toggle")];
    const here = links.indexOf(document.activeElement?.closest?.("tr")?.querySelector(".run-link, .group-toggle"));
    const next = here < 0 ? (by > 0 ? 0 : -1) : here + by;
    if (next >= links.length && !view.more.hidden) return pressedMore();
    links[next]?.focus();
    links[next]?.closest("tr").scrollIntoView({ block: "nearest" });
  }

  function keys(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(?:INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName), inTable = view.body.contains(event.target);
    if (event.target === view.input && event.key === "Escape") {
      if (view.input.value) {
        Choice.words = view.input.value = "";
        changed();
      } else view.input.blur();
    } else if (event.target === view.input && (event.key === "ArrowDown" || event.key === "Enter")) step(1);
    else if (typing) return;
    else if (event.key === "c" && inTable) event.target.closest("tr").querySelector(".pick")?.click();
    else if (event.key === "/") {
      view.input.focus();
      view.input.select();
    } else if (event.key === "j" || (inTable && event.key === "ArrowDown")) step(1);
    else if (event.key === "k" || (inTable && event.key === "ArrowUp")) step(-1);
    else return;
    event.preventDefault();
  }

  // ---- the view -----------------------------------------------------------------------------------------------

  function build(main) {
    const chips = new Map([ALL, Choice.NEED, ...Object.keys(Draw.STATUSES)].map((name) => [name,
      el("button", { type: "button", class: "chip", "aria-pressed": "false", on: { click: () => toggle(name) } },
        name === ALL ? "All" : name === Choice.NEED ? "Needs attention" : Draw.status(name), " ",
        el("span", { class: "many" }))]));
    const input = el("input", { type: "search", id: "filter", autocomplete: "off", spellcheck: "false",
      maxlength: Choice.MOST_TEXT, placeholder: "Filter runs  ( / )", "aria-keyshortcuts": "/",
      "aria-label": "Filter runs: all words must match", title: Around.SEARCHED,
      on: { input: () => { Choice.words = input.value; changed(); } } });
    input.value = Choice.words;
    const sortBy = el("select", { id: "sort-by", on: { change: () => { Choice.sortBy(sortBy.value); changed(); } } },
      [...Choice.columns].map(([key, { title }]) =>
        el("option", { value: key }, key === "status" ? "needs attention" : title)));
    const parts = {
      chips, input, sortBy, heads: new Map(), headed: null,
      head: el("tr", { role: "row" }),
      columns: Columns.make(() => {
        input.value = Choice.words;
        changed();
      }),
      found: el("span", { class: "found" }),
      compare: el("a", { class: "quiet", hidden: true }),
      body: el("tbody", { role: "rowgroup" }),
      empty: el("div", { class: "empty" }),
      notes: el("div", { class: "notes" }),
      // What stands in it, screen readers are told with the link of the run.
      hint: el("div", { class: "hint", "aria-hidden": "true", hidden: true }),
      more: el("button", { type: "button", class: "more", hidden: true, on: { click: pressedMore } }),
      reorder: el("button", { type: "button", class: "reorder", hidden: true, on: { click: () => refresh(true) } },
        "The order has changed: show it"),
    };
    parts.tools = el("div", { class: "tools" },
      el("div", { class: "chips", role: "group", "aria-label": "Show only these statuses" }, [...chips.values()]),
      el("div", { class: "filter", role: "search" }, input, parts.found, parts.compare),
      el("label", { class: "sort-by" }, el("span", { class: "unseen" }, "Sort by "), sortBy), parts.columns.element);
    parts.table = el("table", { class: "runs", role: "table" }, el("caption", { class: "unseen" }, "Runs"),
      el("thead", { role: "rowgroup" }, parts.head), parts.body);
    parts.quiet = Silencing.make();
    put(main, el("div", { class: "fleet" }, el("h1", { class: "unseen" }, "Fleet"), parts.tools, parts.quiet.element, parts.table,
      parts.empty, parts.more, parts.notes, parts.hint, parts.reorder));
    return parts;
  }

  function show(main, { first = false } = {}) {
    Choice.read();
    view = { ...build(main), order: [], many: 0, groups: new Map(), lines: new Map(), inSight: new Set(), touched: 0,
      pointed: null, telling: null, calming: null, drawing: null, pointing: null };
    const mine = view;
    mine.seen = new IntersectionObserver((entries) => {
      if (view === mine) cameInSight(entries);
    });
    const nearEnd = new IntersectionObserver((entries) => {
      if (limit < BY_ITSELF && entries.some((entry) => entry.isIntersecting)) showMore();
    }, { rootMargin: "800px" });
    nearEnd.observe(mine.more);
    const calm = () => {
      clearTimeout(mine.calming);
      mine.calming = setTimeout(() => {
        if (view === mine && !mine.reorder.hidden && !busy()) refresh(false);
      }, CALM_MS);
    };
    mine.table.addEventListener("pointerleave", calm);
    mine.table.addEventListener("focusout", calm);
    mine.table.addEventListener("pointerdown", () => { mine.touched = Date.now(); });
    mine.head.addEventListener("pointerdown", resize);
    mine.body.addEventListener("click", pressedRow);
    mine.body.addEventListener("change", ({ target }) => tick(target.closest("tr").dataset.run, target.checked));
    mine.body.addEventListener("pointerover", (event) => {
      if (event.pointerType === "mouse") pointAt(event.target.closest("tr"));
    });
    mine.body.addEventListener("pointerleave", () => pointAt(null));
    mine.body.addEventListener("focusin", showHint);
    mine.body.addEventListener("focusout", () => setTimeout(() => {
      if (view === mine) showHint();
    }, 0));
    document.addEventListener("keydown", keys);
    const unsubscribe = Data.subscribe((change) => refresh(change.kind === "fleet" && change.first));
    refresh(true);
    if (!first && left !== null) {
      showSoon(limit);
      window.scrollTo(0, left.top);
      const line = mine.lines.get(left.key)?.line;
      line?.scrollIntoView({ block: "nearest" });
      line?.querySelector("a, button").focus({ preventScroll: true });
    }
    return () => {
      left = { top: window.scrollY, key: document.activeElement?.closest?.("tr")?.dataset.key ?? null };
      unsubscribe();
      mine.seen.disconnect();
      nearEnd.disconnect();
      [mine.telling, mine.calming, mine.drawing, mine.pointing].forEach(clearTimeout);
      document.removeEventListener("keydown", keys);
      view = null;
    };
  }

  /** Somebody changed the address by hand, or went back in the browser's history. */
  function follow() {
    Choice.read();
    if (view.input.value !== Choice.words) view.input.value = Choice.words;
    limit = STEP;
    refresh(true);
  }

  return Object.freeze({ show, follow });
})();

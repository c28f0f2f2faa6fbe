"use strict";
/* Compare: the curves of several runs over each other, and below them how far each came. Which runs, which figure, whose
 * curves are hidden, the baseline and the key that colours them stand in the address, as how curves are shown does:
 * #/compare?runs=a,b&figure=grad_norm&hide=b&base=a&group=lr
 */
const Compare = (() => {
  const { el } = Draw;
  const MOST = 20;
  const AGAIN_MS = 60000;
  const MOST_KEYS = 8;
  /** So many lines differ by colour alone. */
  const HUES = 8;

  /** Whether runs can be compared. */
  const takes = (ids) => !Data.embedded && ids.length > 1 && ids.length <= MOST;
  const address = (ids) => `#/compare?runs=${ids.slice(0, MOST).map(encodeURIComponent).join(",")}`;
  const list = (key) => (Address.query().get(key) ?? "").split(",").filter(Boolean);
  function colourOf(number) {
    const [light, dark] = [0.52, 0.76].map((each) => `oklch(${each} 0.15 ${Math.round(250 + number * 137.5) % 360})`);
    return `light-dark(${light}, ${dark})`;
  }
  const seriesOf = (figure) => Curves.SERIES.find(({ key }) => key === figure) ?? Curves.metric(figure, 0);

  function show(main) {
    let found = null, askedAt = 0, ended = false, lines = [];
    const chosen = () => ({ figure: Address.query().get("figure") ?? "loss", group: Address.query().get("group") ?? "",
      base: Address.query().get("base"), hidden: new Set(list("hide")) });
    const select = (label, key) => el("select", { "aria-label": label, on: { change: (event) => {
      Address.set({ [key]: event.target.value });
      if (key === "figure") ask(curves.by(), curves.range());
      else draw();
    } } });
    const figures = select("Figure", "figure"), groups = select("Colour by", "group");
    const fault = el("p", { class: "note doubt", role: "status", hidden: true });
    const curves = Curves.make({ series: [seriesOf(chosen().figure)], many: true, asked: ask, told: tell });
    const table = el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "The runs" });
    table.addEventListener("change", ({ target }) => {
      const { hidden } = chosen(), { run } = target.dataset;
      if (target.type === "radio") Address.set({ base: run });
      else {
        if (target.checked) hidden.delete(run);
        else hidden.add(run);
        Address.set({ hide: [...hidden].join(",") });
      }
      draw();
    });
    Draw.put(main, el("div", { class: "run compare" },
      el("header", { class: "run-head" }, el("a", { class: "back", href: "#/" }, "← All runs"), el("h1", {}, "Compare")),
      fault, el("div", { class: "panel" }, el("div", { class: "tool-group" }, figures, groups), curves.element, table)));

    async function ask(by, range) {
      if (Data.state.mode === "loading") return;
      const ids = list("runs").slice(0, MOST), { figure } = chosen(), part = by === "step" ? range : null;
      askedAt = Date.now();
      try {
        // Throughput is told by the steps of any curve.
        const next = await Data.compared(ids, by === "step" ? "step" : "at", part, figure === "steps_per_s" ? "loss" : figure);
        // Of a part of the axis the least and the greatest are those of all of it, as they were last known.
        const spans = part === null ? next.tables : found?.figure === figure ? found.spans : {};
        found = { ...next, by, figure, spans };
        fault.hidden = true;
      } catch (why) {
        fault.hidden = false;
        Draw.put(fault, why.message, " ", App.marked(why.advice ?? ""));
        if (!(why instanceof Data.Fault)) console.error(why);
      }
      if (!ended && found !== null) draw();
    }

    function options(node, names, value, first) {
      const text = JSON.stringify([...names, value]);
      if (node.dataset.names === text) return;
      node.dataset.names = text;
      Draw.put(node, first ?? null, [...names].map((name) => el("option", { value: name, selected: name === value },
        Curves.SERIES.find(({ key }) => key === name)?.name ?? Format.clip(name, 60))));
    }

    function draw() {
      if (found === null) return;
      const { figure, group, base, hidden } = chosen(), tables = Object.values(found.tables);
      const names = new Set([...found.runs.flatMap((run) => Object.keys(run.figures)), "steps_per_s", figure]);
      options(figures, names, figure);
      options(groups, found.keys, group, el("option", { value: "" }, "a colour each run"));
      const values = [...new Set(found.runs.map((run) => String(run.config[group] ?? "")))];
      const runs = found.runs.map((run, number) => ({ ...run,
        number: found.keys.includes(group) ? values.indexOf(String(run.config[group] ?? "")) : number }));
      const shown = runs.filter((run) => !hidden.has(run.run_id));
      lines = shown.map((run) => run.run_id);
      curves.update(shown.map(({ run_id: id, number }) => ({ name: id, points: found.tables[id], wide: id === base,
        dash: number >= HUES ? [8, 4] : undefined, colour: colourOf(number) })), [seriesOf(figure)],
      found.by !== "step" || lines.length === 0 ? null : [Math.min(...tables.map((each) => each.first)), Math.max(...tables.map((each) => each.last))]);
      const keys = found.keys.slice(0, MOST_KEYS), of = runs.find((run) => run.run_id === base)?.figures[figure]?.last;
      const heads = ["Run", "Baseline", "Status", "Step", "At the cursor", "Last", "To the baseline", "Least", "Greatest", ...keys];
      Morph.put(table, el("table", { class: "table" },
        el("thead", {}, el("tr", {}, heads.map((text) => el("th", { scope: "col" }, Format.clip(text, 40))))),
        el("tbody", {}, runs.map((run) => line(run, figure, base, of, hidden, keys)))), found.same > 0
        ? el("p", { class: "muted" }, `${Format.count(found.same, "key of the configuration is", "keys of the configuration are")} the same.`) : null);
      tell(null, null);
    }

    function line(run, figure, base, reference, hidden, keys) {
      const { run_id: id } = run, { last } = run.figures[figure] ?? {}, { key } = seriesOf(figure);
      const of = found.spans[id] ?? found.tables[id];
      const every = [Points.column(of, key), ...["least", "greatest"].map((which) => Points.bound(of, which, key))].flat()
        .filter(Points.finite);
      const [least, greatest] = every.length === 0 ? [null, null] : [Math.min(...every), Math.max(...every)];
      const differs = id !== base && Number.isFinite(last) && Number.isFinite(reference) ? last - reference : null;
      const number = (value) => el("td", { class: "number" }, Format.number(value ?? null));
      return el("tr", { "data-key": id },
        el("th", { scope: "row" }, el("label", {},
          el("input", { type: "checkbox", checked: !hidden.has(id), "data-run": id, "aria-label": `Show ${id}` }),
          el("span", { class: "swatch", style: { background: colourOf(run.number) } })), Draw.runLink(id)),
        el("td", {}, el("input", { type: "radio", name: "base", checked: id === base, "data-run": id, "aria-label": `Baseline ${id}` })),
        el("td", {}, Draw.statusOf(run)), el("td", { class: "number" }, Format.integer(run.step)),
        el("td", { class: "number", "data-at": id }), number(last),
        el("td", { class: "number" }, differs === null ? "" : `${differs > 0 ? "+" : ""}${Format.number(differs)}`),
        number(least), number(greatest), keys.map((key) => el("td", {}, Format.clip(String(run.config[key] ?? ""), 80))));
    }

    let read = [null, null];

    /** What each curve was at the place that is read. */
    function tell(index, chart) {
      read = chart === null ? read : [index, chart];
      for (const cell of table.querySelectorAll("[data-at]")) {
        const at = lines.indexOf(cell.dataset.at);
        Draw.setText(cell, at < 0 || !read[1] ? "" : Format.number(read[1].at(at, read[0])));
      }
    }

    const again = () => {
      if (Date.now() - askedAt > AGAIN_MS) ask(curves.by(), curves.range());
    };
    const unsubscribe = Data.subscribe(again);
    again();
    return () => {
      ended = true;
      unsubscribe();
      curves.close();
    };
  }

  return Object.freeze({ takes, address, show });
})();

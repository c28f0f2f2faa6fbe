"use strict";
/* Curves: charts over steps, time or tokens, zoomed, smoothed and read together; what is chosen stands in the address.
 *
 * Arrow keys go from point to point on all charts at once. What a chart shows is told in words below it, and all points
 * of a run stand in a table on demand.
 */
const Curves = (() => {
  const { el } = Draw;
  const SERIES = [
    { key: "loss", name: "Loss", unit: "", colour: "var(--accent)" },
    { key: "learning_rate", name: "Learning rate", unit: "", colour: "var(--curve-2)" },
    { key: "steps_per_s", name: "Throughput", unit: " steps/s", colour: "var(--running)" },
  ];
  const MOST_METRICS = 20;
  const NOTHING = { at: [], step: [] };
  const SMOOTH = ["0", "0.6", "0.9", "0.97", "0.99"];
  const AXES = [["step", "By step"], ["at", "By time"], ["tokens", "By tokens"]];
  /** Finer points are asked for once nobody zooms on. */
  const STILL_MS = 250;
  /** Curves that are kept beside the heartbeat are written every two minutes at most. */
  const AGAIN_MS = 60000;
  const { finite, placed } = Points;

  /** A metric's chart. */
  const metric = (name, number) =>
    ({ key: `metric ${name}`, name: Format.clip(name, 60), unit: "", colour: SERIES[number % 3].colour });

  /** Charts of `series`: { element, update(lines, whole), close() }. `asked(by, range)` is called when another axis or
   * range is shown, `told(index)` when another place is read. `many`: the lines are of several runs. */
  function make({ series, many = false, asked, told = () => {} }) {
    // The x value that is read is kept, so that it stays when points come or are thinned out.
    let range = null, pointedAt = null, pointing = false, still = null, ends = null, charts = [];
    const shared = { many, by: "step", log: false, logX: false, smooth: 0, all: false, lines: [], x: [], get range() { return range; },
      window: () => range ?? all(), height: (width) => (many ? Math.max(240, Math.min(420, width / 2.4)) : width < 420 ? 150 : 180) };

    const button = (name, label, pressed) => el("button", { type: "button", class: "quiet", "data-do": name,
      "aria-pressed": pressed === undefined ? null : String(pressed) }, label);
    const axes = AXES.map(([by, label]) => button(by, label, false));
    const log = button("log", "Log scale", false), logX = button("logX", "Log axis", false), every = button("all", "All values", false);
    const smooth = el("select", { "aria-label": "Smoothing", on: { change: () => choose({ smooth: Number(smooth.value) }) } },
      SMOOTH.map((weight) => el("option", { value: weight }, weight === "0" ? "not smoothed" : `smoothed ${weight}`)));
    const [zoomIn, zoomOut, whole, earlier, later] = [["in", "+ Zoom in"], ["out", "− Zoom out"], ["whole", "Whole run"],
      ["earlier", "◀ Earlier"], ["later", "Later ▶"]].map(([name, label]) => button(name, label));
    const where = el("span", { class: "curve-where" });
    const zoomed = el("span", { class: "muted", role: "status" });
    const group = (label, ...parts) => el("div", { class: "tool-group", role: "group", "aria-label": label }, parts);
    const tools = el("div", { class: "curve-tools" }, group("Horizontal axis", axes, logX), group("Vertical axis", log, every, smooth),
      group("Zoom", zoomIn, zoomOut, whole, earlier, later), zoomed);
    const keys = el("p", { class: "muted curve-keys", id: "curves-keys" },
      "Drag over a curve, or turn the wheel with Ctrl, to zoom. With the keyboard: ← → from point to point, ",
      "Home and End, + and − to zoom, 0 for all, Shift with ← → to move.");
    const plots = el("div", { class: many ? "" : "curves" });
    const element = el("div", { class: "curves-all" }, tools, where, plots, keys);
    const use = (wanted) => {
      for (const each of wanted) {
        if (charts.some((chart) => chart.series.key === each.key)) continue;
        const chart = Plot.make(each, shared);
        charts.push(chart);
        plots.append(chart.element);
      }
    };

    /** How far the axis goes around a single point: a few steps, or a minute. */
    const alone = () => (shared.by === "step" ? 5 : 60);
    const all = () => {
      const { x } = shared;
      if (ends !== null) return shared.logX ? [Math.max(ends[0], x[0] ?? 1), ends[1]] : ends;
      return x.length === 0 ? [0, 1] : x.length === 1 ? [x[0] - alone(), x[0] + alone()] : [x[0], x[x.length - 1]];
    };
    const index = () => {
      if (pointedAt === null || shared.x.length === 0) return null;
      return shared.x.reduce((best, x, each) => (Math.abs(x - pointedAt) < Math.abs(shared.x[best] - pointedAt) ? each : best), 0);
    };
    const words = (x) => (shared.by === "step" ? Format.integer(Math.round(x)) : shared.by === "at" ? Format.time(x)
      : shared.by === "tokens" ? Format.compact(x) : Format.duration(x));

    shared.place = (at) => {
      if (many) return `${{ step: "step ", tokens: "token " }[shared.by] ?? ""}${words(shared.x[at])}`;
      const { points, placing } = shared.lines[0], row = placing.rows[at];
      const step = finite(points.step?.[row]) ? `step ${Format.integer(points.step[row])}` : null;
      return [step, Points.time(points, row)].filter((part) => part !== null).join(", ");
    };
    shared.pointed = (position, at, from) => {
      if (pointing) return;
      pointedAt = position < 0 || at === null || at === undefined ? null : shared.x[at];
      tell(from);
    };
    shared.zoom = (wanted) => {
      const [first, last] = all();
      // Never closer than to a few points, never beyond what there is.
      const least = Math.max((last - first) / 50000, shared.by === "step" ? 2 : 1);
      let [from, to] = wanted ?? [first, last];
      if (to - from < least) [from, to] = [(from + to - least) / 2, (from + to + least) / 2];
      if (to - from >= (last - first) * 0.999) range = null;
      else {
        const shift = from < first ? first - from : to > last ? last - to : 0;
        range = [from + shift, to + shift];
      }
      Address.set({ zoom: range && range.map((x) => Number(x.toPrecision(12))).join("..") });
      lay();
      ask();
    };
    shared.wheel = (event, plot) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const box = plot.over.getBoundingClientRect();
      closer(event.deltaY < 0 ? 0.75 : 1 / 0.75, plot.posToVal(event.clientX - box.left, "x"));
    };
    shared.touched = (event, plot) => {
      const box = plot.over.getBoundingClientRect();
      if (event.touches.length === 1)
        plot.setCursor({ left: Math.min(Math.max(event.touches[0].clientX - box.left, 0), box.width), top: 1 });
    };

    function ask() {
      clearTimeout(still);
      still = setTimeout(() => asked(shared.by, range), STILL_MS);
    }

    /** Cursors that move because the charts do are not pointed at by anybody. */
    function quietly(work) {
      const before = pointing;
      pointing = true;
      const result = work();
      pointing = before;
      return result;
    }

    function closer(factor, around) {
      const [from, to] = range ?? all();
      const centre = around ?? (pointedAt !== null && pointedAt >= from && pointedAt <= to ? pointedAt : (from + to) / 2);
      shared.zoom([centre - (centre - from) * factor, centre + (to - centre) * factor]);
    }

    function move(share) {
      if (range === null) return;
      const by = (range[1] - range[0]) * share;
      shared.zoom([range[0] + by, range[1] + by]);
    }

    /** Puts the zoom onto all charts, and says what they show. */
    function lay() {
      const [from, to] = range ?? all();
      quietly(() => charts.forEach((each) => each.range(from, to)));
      [whole, earlier, later, zoomOut].forEach((each) => each.setAttribute("aria-disabled", String(range === null)));
      zoomed.textContent = range === null ? "Shows the whole run"
        : `Shows ${shared.by === "step" ? "steps " : ""}${words(from)} to ${words(to)}`;
      tell(null);
    }

    /** Tells the point that is read on all charts. */
    function tell(from) {
      if (shared.x.length === 0) return;
      const at = index();
      quietly(() => charts.forEach((each) => each.point(at, from)));
      where.textContent = `${at === null ? "Newest point" : "At the cursor"}: ${shared.place(at ?? shared.x.length - 1)}`;
      told(at ?? shared.x.length - 1, charts[0]);
    }

    /** Lays all lines over one axis. */
    function place(lines) {
      const by = many && shared.by === "at" ? "elapsed" : shared.by;
      shared.lines = lines.map((line) => ({ ...line, placing: placed(line.points, by, shared.logX) }));
      shared.x = [...new Set(shared.lines.flatMap(({ placing }) => placing.x))].sort((one, other) => one - other);
      const places = new Map(shared.x.map((x, at) => [x, at]));
      for (const line of shared.lines) line.place = line.placing.x.map((x) => places.get(x));
    }

    function show() {
      place(shared.lines);
      const shown = quietly(() => charts.filter((each) => each.show()));
      where.hidden = keys.hidden = shown.length === 0;
      tools.hidden = shared.lines.every(({ points }) => (points.at ?? []).length === 0);
      axes.forEach((each) => each.setAttribute("aria-pressed", String(each.dataset.do === shared.by)));
      axes[2].hidden = shared.by !== "tokens" && !shared.lines.some(({ points }) => points.tokens?.some(finite));
      log.setAttribute("aria-pressed", String(shared.log));
      logX.setAttribute("aria-pressed", String(shared.logX));
      logX.hidden = !many && shared.by === "at";
      every.setAttribute("aria-pressed", String(shared.all));
      smooth.value = String(shared.smooth);
      lay();
      return shown.map((each) => each.series);
    }

    function again() {
      charts.forEach((each) => each.drop());
      return show();
    }

    function choose(change) {
      Object.assign(shared, change);
      Address.set({ x: shared.by === "step" ? null : shared.by, log: `${shared.logX ? "x" : ""}${shared.log ? "y" : ""}`, all: shared.all && "1",
        smooth: shared.smooth > 0 && String(shared.smooth) });
      again();
    }

    function axis(by) {
      if (by === shared.by) return;
      range = pointedAt = ends = null;
      shared.logX &&= many || by !== "at";
      Address.set({ zoom: null });
      choose({ by });
      ask();
    }

    function read() {
      const chosen = Address.query();
      const [from, to] = (chosen.get("zoom") ?? "").split("..").map(Number);
      range = from < to ? [from, to] : null;
      shared.by = AXES.some(([by]) => by === chosen.get("x")) ? chosen.get("x") : "step";
      shared.log = /y/.test(chosen.get("log"));
      shared.logX = /x/.test(chosen.get("log")) && (many || shared.by !== "at");
      shared.all = chosen.get("all") === "1";
      shared.smooth = SMOOTH.includes(chosen.get("smooth")) ? Number(chosen.get("smooth")) : 0;
    }

    const DO = { step: () => axis("step"), at: () => axis("at"), tokens: () => axis("tokens"),
      log: () => choose({ log: !shared.log }), logX: () => choose({ logX: !shared.logX }), all: () => choose({ all: !shared.all }), in: () => closer(0.5),
      out: () => closer(2), whole: () => shared.zoom(null), earlier: () => move(-0.5), later: () => move(0.5) };

    function step(to) {
      const last = shared.x.length - 1;
      if (last < 0) return;
      pointedAt = shared.x[Math.min(Math.max(to, 0), last)];
      if (range !== null && (pointedAt < range[0] || pointedAt > range[1])) {
        const half = (range[1] - range[0]) / 2;
        shared.zoom([pointedAt - half, pointedAt + half]);
      } else tell(null);
    }

    tools.addEventListener("click", (event) => {
      const pressed = event.target.closest("button[data-do]");
      if (pressed !== null && pressed.getAttribute("aria-disabled") !== "true") DO[pressed.dataset.do]();
    });
    plots.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.getAttribute("role") !== "slider") return;
      const at = index() ?? shared.x.length - 1;
      const keyed = {
        ArrowLeft: () => (event.shiftKey ? move(-0.25) : step(at - 1)), ArrowDown: () => step(at - 1),
        ArrowRight: () => (event.shiftKey ? move(0.25) : step(at + 1)), ArrowUp: () => step(at + 1),
        PageDown: () => step(at - 10), PageUp: () => step(at + 10), Home: () => step(0), End: () => step(shared.x.length - 1),
        "+": DO.in, "=": DO.in, "-": DO.out, 0: DO.whole,
      }[event.key];
      if (keyed === undefined) return;
      event.preventDefault();
      keyed();
    });
    plots.addEventListener("focusin", (event) => {
      if (event.target.getAttribute("role") === "slider" && pointedAt === null) step(shared.x.length - 1);
    });

    const sizes = new ResizeObserver(() => charts.forEach((each) => each.resize()));
    sizes.observe(plots);
    document.addEventListener("themechange", again);
    read();
    use(series);

    return {
      element,
      by: () => shared.by,
      range: () => range,
      left: () => shared.lines[0].placing.left,
      /** Draws `lines`: { name, points, colour, dash, wide }. `whole`: what the axis spans, if they are a part of it. The
       * series of which something is known. */
      update(lines, wanted = series, whole = null) {
        const drawn = (of) => JSON.stringify(of.map(({ name, dash, wide }) => [name, dash, wide]));
        const other = drawn(lines) !== drawn(shared.lines);
        if (charts.some((chart) => !wanted.some(({ key }) => key === chart.series.key))) {
          charts.forEach((each) => each.drop());
          charts = [];
          plots.replaceChildren();
        }
        use(wanted);
        shared.lines = lines;
        ends = whole;
        return other ? again() : show();
      },
      close() {
        clearTimeout(still);
        sizes.disconnect();
        document.removeEventListener("themechange", again);
        charts.forEach((each) => each.drop());
      },
    };
  }

  /** The curves of one run: `element` to put into the page, `update(doc)`, `close()`. */
  function ofRun(id) {
    let points = NOTHING, keeps = false, whole = null, fine = null, askedAt = 0, closed = false;
    const charts = make({ series: SERIES, asked });
    const table = Points.table(), left = el("p", { class: "muted" });
    charts.element.append(left, table.element);
    const fits = (by, range) =>
      range !== null && fine?.by === by && fine.part[0] <= range[0] && fine.part[1] >= range[1];

    /** Asks for the points that are kept beside the heartbeat, where there are any. */
    async function asked(by, range) {
      const axis = by === "step" ? "step" : "at", old = Date.now() - askedAt > AGAIN_MS;
      try {
        if (keeps && !Data.embedded) {
          if (old) askedAt = Date.now();
          if (old || whole?.by !== axis) whole = await Data.curves(id, axis, null);
          if (range !== null && by !== "tokens" && (old || !fits(axis, range))) {
            fine = { ...await Data.curves(id, axis, range), part: range };
          }
        }
      } catch (fault) {
        // Those of the heartbeat stand; the page says by itself that the server does not answer.
        if (!(fault instanceof Data.Fault)) console.error(fault);
      }
      if (!closed) show();
    }

    function show() {
      const by = charts.by(), axis = by === "step" ? "step" : "at";
      const all = whole?.by === axis ? Points.extended(whole, points) : points;
      const finer = by !== "tokens" && fits(axis, charts.range());
      const ends = by !== "tokens" && whole?.by === axis && whole.at.length > 1
        ? [whole.first, Math.max(whole.last, points[axis].at(-1) ?? whole.last)] : null;
      const names = Object.keys(all.metrics ?? {}).slice(0, MOST_METRICS);
      const shown = charts.update([{ name: id, points: finer ? fine : all }],
        [...SERIES, ...names.map((name, number) => metric(name, number))], ends);
      const some = (points.at ?? []).length > 0, notes = [], missing = SERIES.filter((series) => !shown.includes(series));
      table.element.hidden = !some;
      if (!some) notes.push("This run has no points yet: there are none in progress.json.");
      else if (shown.length === 0) notes.push("No point has a place on this axis.");
      else if (missing.length > 0) {
        notes.push(`Not reported by this run: ${missing.map((series) => series.name.toLowerCase()).join(", ")}.`);
      }
      if (charts.left() > 0 && shown.length > 0) {
        const why = by === "step" ? "they were trained again later, or have no step. By time all are shown"
          : by === "at" ? "their times go back" : "how many tokens they had seen is not known";
        notes.push(`${Format.count(charts.left(), "point")} not on this axis: ${why}.`);
      }
      left.textContent = notes.join(" ");
      left.hidden = left.textContent === "";
      table.fill(finer ? fine : all);
    }

    return {
      element: charts.element,
      update(doc) {
        points = doc.points?.at ? { ...doc.points, metrics: doc.curves } : NOTHING;
        keeps = Boolean(doc.keeps_curves);
        if (Date.now() - askedAt > AGAIN_MS) asked(charts.by(), charts.range());
        else show();
      },
      close() {
        closed = true;
        charts.close();
      },
    };
  }

  return Object.freeze({ make, ofRun, metric, SERIES });
})();

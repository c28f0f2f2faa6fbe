"use strict";
/* Curves: loss, learning rate and throughput of a run over steps or over time, zoomed and read together.
 *
 * Arrow keys go from point to point on all charts at once. What a chart shows is told in words below it, and all points
 * stand in a table on demand.
 */
const Curves = (() => {
  const { el } = Draw;
  const SERIES = [
    { key: "loss", name: "Loss", unit: "", colour: "--curve-1" },
    { key: "learning_rate", name: "Learning rate", unit: "", colour: "--curve-2" },
    { key: "steps_per_s", name: "Throughput", unit: " steps/s", colour: "--curve-3" },
  ];
  const MOST_METRICS = 8;
  const NOTHING = { at: [], step: [] };
  const { finite, placed } = Points;

  /** The curves of one run: `element` to put into the page, `update(points)`, `close()`. */
  function make() {
    let points = NOTHING;
    let range = null;
    let pointedAt = null; // The x value that is read, so that it stays when points come or are thinned out.
    let pointing = false;
    const shared = {
      by: "step",
      log: false,
      placing: placed(NOTHING, "step"),
      height: (width) => (width < 420 ? 150 : 180),
    };

    const button = (name, label, pressed) =>
      el(
        "button",
        {
          type: "button",
          class: "quiet",
          "data-do": name,
          ...(pressed === undefined ? {} : { "aria-pressed": String(pressed) }),
        },
        label,
      );
    const bySteps = button("step", "By step", true);
    const byTime = button("at", "By time", false);
    const log = button("log", "Log scale", false);
    const earlier = button("earlier", "◀ Earlier");
    const later = button("later", "Later ▶");
    const zoomIn = button("in", "+ Zoom in");
    const zoomOut = button("out", "− Zoom out");
    const whole = button("whole", "Whole run");
    const where = el("span", { class: "curve-where" });
    const zoomed = el("span", { class: "muted", role: "status" });
    const tools = el(
      "div",
      { class: "curve-tools" },
      el("div", { class: "tool-group", role: "group", "aria-label": "Horizontal axis" }, bySteps, byTime),
      el("div", { class: "tool-group", role: "group", "aria-label": "Loss" }, log),
      el("div", { class: "tool-group", role: "group", "aria-label": "Zoom" }, zoomIn, zoomOut, whole, earlier, later),
      zoomed,
    );
    const keys = el(
      "p",
      { class: "muted curve-keys", id: "curves-keys" },
      "Drag over a curve, or turn the wheel with Ctrl, to zoom. With the keyboard: ← → from point to point, ",
      "Home and End, + and − to zoom, 0 for all, Shift with ← → to move.",
    );
    const charts = SERIES.map((series) => Plot.make(series, shared));

    /** Figures of training's own get a chart each as they are told. */
    function addMetrics() {
      for (const name of Object.keys(points.metrics ?? {})) {
        const key = `metric ${name}`;
        if (charts.some((each) => each.series.key === key) || charts.length >= SERIES.length + MOST_METRICS) continue;
        const colour = `--curve-${1 + (charts.length % 3)}`;
        const chart = Plot.make({ key, name: Format.clip(name, 60), unit: "", colour }, shared);
        charts.push(chart);
        plots.append(chart.element);
      }
    }
    const table = Points.table();
    const left = el("p", { class: "muted" });
    const plots = el("div", { class: "curves" }, ...charts.map((each) => each.element));
    const element = el("div", { class: "curves-all" }, tools, where, plots, left, keys, table.element);

    /** How far the axis goes around a single point: a few steps, or a minute. */
    const alone = () => (shared.by === "step" ? 5 : 60);
    const all = () => {
      const { x } = shared.placing;
      return x.length === 0 ? [0, 1] : x.length === 1 ? [x[0] - alone(), x[0] + alone()] : [x[0], x[x.length - 1]];
    };
    const index = () => {
      if (pointedAt === null || shared.placing.x.length === 0) return null;
      return shared.placing.x.reduce(
        (best, x, each) => (Math.abs(x - pointedAt) < Math.abs(shared.placing.x[best] - pointedAt) ? each : best),
        0,
      );
    };

    shared.place = (at) => {
      const row = shared.placing.rows[at];
      const step = finite(points.step?.[row]) ? `step ${Format.integer(points.step[row])}` : null;
      return [step, Points.time(points, row)].filter((part) => part !== null).join(", ");
    };
    shared.pointed = (position, at, from) => {
      if (pointing) return;
      pointedAt = position < 0 || at === null || at === undefined ? null : shared.placing.x[at];
      tell(from);
    };
    shared.zoom = (wanted) => {
      const [first, last] = all();
      // Never closer than to a few points, never beyond what there is.
      const least = Math.max((last - first) / 5000, shared.by === "step" ? 2 : 1);
      let [from, to] = wanted ?? [first, last];
      if (to - from < least) [from, to] = [(from + to - least) / 2, (from + to + least) / 2];
      if (to - from >= (last - first) * 0.999) range = null;
      else {
        const shift = from < first ? first - from : to > last ? last - to : 0;
        range = [from + shift, to + shift];
      }
      lay();
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
      const centre =
        around ?? (pointedAt !== null && pointedAt >= from && pointedAt <= to ? pointedAt : (from + to) / 2);
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
      const end = (x) => (shared.by === "step" ? Format.integer(Math.round(x)) : Format.time(x));
      zoomed.textContent =
        range === null
          ? "Shows the whole run"
          : `Shows ${shared.by === "step" ? "steps " : ""}${end(from)} to ${end(to)}`;
      tell(null);
    }

    /** Tells the point that is read on all charts. */
    function tell(from) {
      if (shared.placing.x.length === 0) return;
      const at = index();
      quietly(() => charts.forEach((each) => each.point(at, from)));
      const place = shared.place(at ?? shared.placing.x.length - 1);
      where.textContent = `${at === null ? "Newest point" : "At the cursor"}: ${place}`;
    }

    function show() {
      addMetrics();
      shared.placing = placed(points, shared.by);
      const shown = quietly(() => charts.filter((each) => each.show(points)));
      where.hidden = keys.hidden = shown.length === 0;
      tools.hidden = table.element.hidden = (points.at ?? []).length === 0;
      const missing = SERIES.filter((series) => !shown.some((each) => each.series === series));
      const notes = [];
      if (tools.hidden) notes.push("This run has no points yet: there are none in progress.json.");
      else if (shown.length === 0) notes.push("No point has a place on this axis.");
      else if (missing.length > 0) {
        notes.push(`Not reported by this run: ${missing.map((series) => series.name.toLowerCase()).join(", ")}.`);
      }
      if (shared.placing.left > 0 && shown.length > 0) {
        const why =
          shared.by === "step"
            ? "they were trained again later, or have no step. By time all are shown"
            : "their times go back";
        notes.push(`${Format.count(shared.placing.left, "point")} not on this axis: ${why}.`);
      }
      left.textContent = notes.join(" ");
      left.hidden = left.textContent === "";
      lay();
      table.fill(points);
    }

    function again() {
      charts.forEach((each) => each.drop());
      show();
    }

    function axis(by) {
      if (by === shared.by) return;
      const at = index();
      const row = at === null ? null : shared.placing.rows[at];
      shared.by = by;
      range = null;
      pointedAt = row === null ? null : points[by][row];
      bySteps.setAttribute("aria-pressed", String(by === "step"));
      byTime.setAttribute("aria-pressed", String(by === "at"));
      again();
    }

    const DO = {
      step: () => axis("step"),
      at: () => axis("at"),
      log() {
        shared.log = !shared.log;
        log.setAttribute("aria-pressed", String(shared.log));
        again();
      },
      in: () => closer(0.5),
      out: () => closer(2),
      whole: () => shared.zoom(null),
      earlier: () => move(-0.5),
      later: () => move(0.5),
    };

    function step(to) {
      const last = shared.placing.x.length - 1;
      if (last < 0) return;
      const at = Math.min(Math.max(to, 0), last);
      pointedAt = shared.placing.x[at];
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
      const at = index() ?? shared.placing.x.length - 1;
      const keyed = {
        ArrowLeft: () => (event.shiftKey ? move(-0.25) : step(at - 1)),
        ArrowRight: () => (event.shiftKey ? move(0.25) : step(at + 1)),
        ArrowDown: () => step(at - 1),
        ArrowUp: () => step(at + 1),
        PageDown: () => step(at - 10),
        PageUp: () => step(at + 10),
        Home: () => step(0),
        End: () => step(shared.placing.x.length - 1),
        "+": () => closer(0.5),
        "=": () => closer(0.5),
        "-": () => closer(2),
        0: () => shared.zoom(null),
      }[event.key];
      if (keyed === undefined) return;
      event.preventDefault();
      keyed();
    });
    plots.addEventListener("focusin", (event) => {
      if (event.target.getAttribute("role") === "slider" && pointedAt === null) step(shared.placing.x.length - 1);
    });

    const sizes = new ResizeObserver(() => charts.forEach((each) => each.resize()));
    sizes.observe(plots);
    document.addEventListener("themechange", again);

    return {
      element,
      update(next) {
        points = next?.at ? next : NOTHING;
        show();
      },
      close() {
        sizes.disconnect();
        document.removeEventListener("themechange", again);
        charts.forEach((each) => each.drop());
      },
    };
  }

  return Object.freeze({ make });
})();

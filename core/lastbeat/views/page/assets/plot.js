"use strict";
/* Plot: one chart of curves, drawn by uPlot, which gets numbers alone.
 *
 * To assistive technology it is a slider: the point that is read is its value. `shared` is what all charts have in
 * common: by (the axis), many (whether lines are of several runs), log, logX, smooth (the weight of what was before), all
 * (whether axes show every value), x (all places on the axis), range (what is zoomed to, or null), window(),
 * height(width), place(index) in words, and what to call when somebody points (pointed), zooms (zoom), turns the wheel
 * (wheel) or moves a finger (touched). `shared.lines` are { name, points, colour, dash, wide, placing (of Points.placed), place (index into x of each of its rows) }:
 * one run each. A line without a colour has that of the series.
 */
const Plot = (() => {
  const { el } = Draw;
  const { finite, told, summary, smoothed } = Points;
  /** Of each line: smoothed, as it was told, and the least and the greatest. */
  const COLUMNS = 4;
  const MOST_SAID = 6;

  /** Labels of a time axis: as fine as its ticks are, with the day where it begins and at the first tick. */
  function timeLabels(plot, ticks, axis, space, step) {
    let day = "";
    return ticks.map((tick) => {
      const today = new Date(tick * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
      const clock = Format.clock(tick, step < 60);
      const begins = today !== day;
      day = today;
      return step >= 86400 ? today : begins ? `${clock}\n${today}` : clock;
    });
  }

  /** Ticks of a logarithmic axis: 1, 2, 5 of each decade; all digits where that are too few, plain ones if still so. */
  function logTicks(plot, axis, min, max) {
    const within = (digits) => {
      const found = [];
      for (let decade = Math.floor(Math.log10(min)); decade <= Math.log10(max); decade += 1) {
        for (const digit of digits) found.push(Number((digit * 10 ** decade).toPrecision(6)));
      }
      return found.filter((tick) => tick >= min && tick <= max);
    };
    const decades = within([1]);
    if (decades.length > 4) return decades.filter((_, at) => at % Math.ceil(decades.length / 8) === 0);
    const rough = within([1, 2, 5]);
    if (rough.length > 2) return rough;
    const fine = within([1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9]);
    return fine.length > 2 ? fine : [0.2, 0.5, 0.8].map((share) => Number((min + (max - min) * share).toPrecision(4)));
  }
  const logRange = (plot, min, max) =>
    min > 0 && max > 0
      ? [Math.max(min / (max / min) ** 0.06 / 1.001, 1e-300), Math.min(max * (max / min) ** 0.06 * 1.001, 1e300)]
      : [0.1, 10];

  const LARGEST = 1e308;

  /** What a plain axis spans. Of one value, or of a flat line, it spans some of what is around it: where a line lies
   * tells nothing on an axis without a second value. */
  function plainRange(plot, min, max) {
    if (!finite(min) || !finite(max)) return [0, 1];
    const span = max - min, size = Math.max(Math.abs(min), Math.abs(max));
    // Less than what a number's last digits are worth is no difference.
    const bounded = (value) => Math.min(LARGEST, Math.max(-LARGEST, value));
    if (span <= size * 1e-9) return size === 0 ? [-1, 1] : [bounded(min - size * 0.1), bounded(max + size * 0.1)];
    return [bounded(min - span * 0.06), bounded(max + span * 0.06)];
  }

  /** Round ticks of a plain axis, at most so many as have room `along` it or across.
   *
   * uPlot's own go on for ever where numbers are so large that nothing lies between them, and runs tell what they like.
   */
  function plainTicks(along, whole = false) {
    return (plot, axis, min, max) => {
      const room = along ? Math.max(44, Format.number(max).length * 7 + 16) : 26;
      const most = Math.max(2, Math.floor(plot.bbox[axis === 0 ? "width" : "height"] / uPlot.pxRatio / room));
      const rough = (max - min) / most;
      const power = 10 ** Math.floor(Math.log10(rough));
      const steps = [1, 2, 2.5, 5, 10].map((each) => each * power);
      // There is no step 2.5.
      const step = whole ? Math.max(1, steps.filter((each) => each < 1 || Number.isInteger(each)).find((each) =>
        each >= rough)) : steps.find((each) => each >= rough);
      if (!Number.isFinite(step) || step === 0 || min + step === min) return [min, max];
      const first = Math.ceil(min / step);
      const ticks = Array.from({ length: most + 2 }, (_, at) => Number(((first + at) * step).toPrecision(12)));
      return ticks.filter((tick) => tick >= min && tick <= max);
    };
  }

  /** Seconds since the beginning, with the unit that suits the step of the axis. */
  const elapsedLabels = (plot, ticks) => ticks.map((tick) => (tick === 0 ? "0" : Format.duration(tick)));

  let made = 0;

  /** The chart of one series: { key, name, unit, colour }. */
  function make(series, shared) {
    const id = `curve-${series.key.replace(/[^a-z0-9_]/gi, "-")}-${(made += 1)}`;
    const value = el("span", { class: "curve-value" });
    const host = el("div", { class: "curve-plot", role: "slider", tabindex: "0", "aria-label": `${series.name} curve`,
      "aria-orientation": "horizontal", "aria-describedby": `${id}-summary curves-keys`, "aria-valuemin": "1" });
    const words = el("p", { class: "curve-summary", id: `${id}-summary` });
    const note = el("p", { class: "muted" });
    const element = el("figure", { class: "curve", id }, el("h3", {}, series.name, " ", value), host, words, note);
    // Columns hold what was told, for each line and place of the axis.
    let plot = null, columns = [], data = [], colours = {};

    // The line goes on over points that tell nothing of it (undefined), and ends where the value is no number (null).
    const shownValue = (v) =>
      finite(v) && !(shared.log && v <= 0) ? v : v === null || v === undefined ? undefined : null;

    /** The columns of a line, spread over all places of the axis. */
    function spread(line) {
      const inOrder = (column) => line.placing.rows.map((row) => column[row]);
      const over = (values) => {
        const found = Array(shared.x.length);
        line.place.forEach((index, at) => { found[index] = values[at]; });
        return found;
      };
      const values = inOrder(Points.column(line.points, series.key));
      const bounds = ["least", "greatest"].map((which) => inOrder(Points.bound(line.points, which, series.key)));
      columns.push(over(values));
      const band = bounds.map((found) => (found.length === 0 || found.every((each) => !finite(each)) ? [] :
        over(found.map((each, at) => shownValue(finite(each) ? each : values[at])))));
      const raw = values.map(shownValue);
      return [over(shared.smooth > 0 ? smoothed(raw, shared.smooth) : raw), shared.smooth > 0 ? over(raw) : [], ...band];
    }

    function readColours() {
      const read = (colour) => {
        element.style.color = colour;
        return getComputedStyle(element).color;
      };
      colours = { text: read("var(--muted)"), grid: read("var(--line)"), bad: read("var(--failed)"),
        lines: shared.lines.map(({ colour }) => read(colour ?? series.colour)) };
      element.style.color = "";
    }

    /** Marks where a value was told that is no number, at the foot of the chart. */
    function marks(u) {
      const { left, width, top, height } = u.bbox;
      const size = 3 * uPlot.pxRatio;
      u.ctx.save();
      u.ctx.strokeStyle = colours.bad;
      u.ctx.lineWidth = 1.5 * uPlot.pxRatio;
      u.ctx.beginPath();
      for (const column of columns) column.forEach((told, index) => {
        if (typeof told !== "string") return;
        const x = u.valToPos(shared.x[index], "x", true);
        if (x < left || x > left + width) return;
        const y = top + height - 2 * size;
        for (const way of [1, -1]) {
          u.ctx.moveTo(x - size, y - way * size);
          u.ctx.lineTo(x + size, y + way * size);
        }
      });
      u.ctx.stroke();
      u.ctx.restore();
    }

    /** The values of a line within what is shown, not smoothed. */
    function within(line) {
      const [from, to] = shared.window(), values = data[(shared.smooth > 0 ? 2 : 1) + line * COLUMNS] ?? [];
      return values.filter((_, index) => shared.x[index] >= from && shared.x[index] <= to);
    }

    function span(u, min, max) {
      const spans = shared.all ? [] : shared.lines.map((_, line) => Format.usual(within(line), shared.range === null)).filter(Boolean);
      const [low, high] = spans.length === 0 ? [min, max]
        : [Math.min(...spans.map((each) => each[0])), Math.max(...spans.map((each) => each[1]))];
      return (shared.log ? logRange : plainRange)(u, low, high);
    }

    const longest = (labels) => labels.reduce((most, label) => Math.max(most, label.length), 0);
    const faint = (colour, percent) => `color-mix(in srgb, ${colour} ${percent}%, transparent)`;

    function options(width) {
      const axis = { stroke: () => colours.text, grid: { stroke: () => colours.grid, width: 1 }, ticks: { show: false },
        font: "12px system-ui, sans-serif" };
      const byTime = shared.by === "at", stroke = (line) => () => colours.lines[line];
      const logarithmic = { splits: logTicks, filter: (u, ticks) => ticks };
      const gaps = { spanGaps: false, points: { show: false } };
      return {
        width, height: shared.height(width), legend: { show: false }, padding: [10, 24, 0, 0],
        scales: { x: { time: byTime, ...(shared.logX ? { distr: 3, range: (u, min, max) => [min, max] } : {}) }, y: { ...(shared.log ? { distr: 3 } : {}), range: span } },
        axes: [
          { ...axis, size: byTime ? 42 : 30, space: width < 420 ? 48 : 64,
            ...(shared.logX ? logarithmic : byTime ? {} : { splits: plainTicks(true, true) }),
            values: byTime ? timeLabels : shared.by === "elapsed" ? elapsedLabels
              : (u, ticks) => ticks.map((tick) => (shared.by === "tokens" ? Format.compact(tick) : Format.integer(tick))) },
          // As wide as its longest label.
          { ...axis, size: (_u, labels) => Math.min(110, Math.max(44, 18 + 7 * longest(labels ?? []))), space: 32,
            ...(shared.log ? logarithmic : { splits: plainTicks(false) }),
            values: (u, ticks) => ticks.map((tick) => (tick === null ? "" : Format.number(tick))) },
        ],
        series: [{}, ...shared.lines.flatMap(({ dash, wide }, line) => [
          { stroke: stroke(line), width: wide ? 3 : 1.75, dash, spanGaps: false, points: shared.smooth > 0 ? { show: false }
            : { size: 5, stroke: stroke(line), fill: stroke(line) } },
          { stroke: () => faint(colours.lines[line], 30), width: 1, ...gaps }, { width: 0, ...gaps }, { width: 0, ...gaps },
        ])],
        bands: shared.lines.map((_, line) => ({ series: [4 + line * COLUMNS, 3 + line * COLUMNS],
          fill: () => faint(colours.lines[line], shared.lines.length > 1 ? 8 : 18) })),
        cursor: {
          y: false, bind: { dblclick: () => () => shared.zoom(null) }, drag: { x: true, y: false, setScale: false, dist: 4 },
          points: { show: (u, index) => (index % COLUMNS === 1 ? el("div", {}) : null), size: 9,
            stroke: (u, index) => colours.lines[(index - 1) / COLUMNS], fill: (u, index) => colours.lines[(index - 1) / COLUMNS] },
        },
        hooks: {
          setCursor: [(u) => shared.pointed(u.cursor.left, u.cursor.idx, u)],
          setSelect: [(u) => {
            if (u.select.width < 4) return;
            const range = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
            u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            shared.zoom(range);
          }],
          draw: [marks],
        },
      };
    }

    /** The place of the last value of a line at `index` or before: a figure that few points have keeps its last value. */
    function lastAt(line, index) {
      let last = index;
      while (last > 0 && (columns[line][last] ?? null) === null) last -= 1;
      return last;
    }

    function showNote() {
      const every = shared.lines.flatMap((_, line) => within(line)).filter(finite);
      const { min, max } = plot.scales.y, beyond = every.filter((each) => each < min || each > max).length;
      const below = shared.log ? columns.flat().filter((each) => finite(each) && each <= 0).length : 0;
      note.textContent = [
        below > 0 ? `${below} values are not above zero and have no place on a logarithmic scale.` : "",
        beyond > 0 ? `${Format.count(beyond, "value")} beyond this axis: "All values" shows them.` : "",
      ].join(" ").trim();
      note.hidden = note.textContent === "";
    }

    return {
      element, series,
      /** Whether anything at all is known of this series. */
      show() {
        columns = [];
        data = [shared.x, ...shared.lines.flatMap(spread)];
        const some = columns.some((column) => column.some((each) => each !== null && each !== undefined));
        element.hidden = !some;
        if (!some) return false;
        if (plot === null) {
          readColours();
          plot = new uPlot(options(host.clientWidth || 600), data, host);
          plot.over.addEventListener("wheel", (event) => shared.wheel(event, plot), { passive: false });
          plot.over.addEventListener("touchmove", (event) => shared.touched(event, plot), { passive: true });
        } else plot.batch(() => plot.setData(data, false));
        words.textContent = shared.many ? "" : summary(series, shared.lines[0].placing, shared.lines[0].points);
        return true;
      },
      range(min, max) {
        // At once, for cursors are placed on it right after.
        plot?.batch(() => plot.setScale("x", { min, max }));
        if (plot !== null) showNote();
      },
      /** What was told of a line at place `index` of the axis or before. */
      at: (line, index) => (columns[line] === undefined ? null : columns[line][lastAt(line, index)] ?? null),
      /** Tells the point `index`, or the newest; draws the cursor there unless it is this chart that was pointed at. */
      point(index, from) {
        if (plot === null) return;
        const many = shared.x.length, at = index ?? many - 1;
        const each = shared.lines.map(({ name }, line) => {
          const last = lastAt(line, at), figure = told(columns[line][last], series.unit);
          if (shared.many) return `${name} ${figure}`;
          return last === at ? figure : `${figure} at ${shared.place(last)}`;
        });
        const text = each.slice(0, MOST_SAID).join(", ");
        value.textContent = shared.many ? "" : text;
        host.setAttribute("aria-valuemax", String(many));
        host.setAttribute("aria-valuenow", String(at + 1));
        host.setAttribute("aria-valuetext", `${series.name} ${text}, ${shared.place(at)}, point ${at + 1} of ${many}`);
        if (from !== plot)
          plot.setCursor(index === null ? { left: -10, top: -10 } : { left: plot.valToPos(shared.x[at], "x"), top: 1 }, false);
      },
      resize() {
        const width = host.clientWidth;
        if (plot !== null && width > 0 && width !== plot.width) plot.setSize({ width, height: shared.height(width) });
      },
      drop() {
        plot?.destroy();
        plot = null;
      },
    };
  }

  return Object.freeze({ make, plainRange });
})();

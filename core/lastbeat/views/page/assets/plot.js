"use strict";
/* Plot: one chart of the curves of a run, drawn by uPlot, which gets numbers alone.
 *
 * To assistive technology it is a slider: the point that is read is its value. `shared` is what all charts of a run
 * have in common: by (the axis), log, placing (of Points.placed), height(width), place(index) in words, and what to
 * call when somebody points (pointed), zooms (zoom), turns the wheel (wheel) or moves a finger (touched).
 */
const Plot = (() => {
  const { el } = Draw;
  const { finite, told, summary } = Points;

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

  let made = 0;

  /** The chart of one series: { key, name, unit, colour }. */
  function make(series, shared) {
    const id = `curve-${series.key.replace(/[^a-z0-9_]/gi, "-")}-${(made += 1)}`;
    const value = el("span", { class: "curve-value" });
    const host = el("div", {
      class: "curve-plot",
      role: "slider",
      tabindex: "0",
      "aria-label": `${series.name} curve`,
      "aria-orientation": "horizontal",
      "aria-describedby": `${id}-summary curves-keys`,
      "aria-valuemin": "1",
    });
    const words = el("p", { class: "curve-summary", id: `${id}-summary` });
    const note = el("p", { class: "muted" });
    const element = el("figure", { class: "curve", id }, el("h3", {}, series.name, " ", value), host, words, note);
    let plot = null;
    let column = [];
    let colours = {};

    const hidden = () => shared.log && series.key === "loss";
    // The line goes on over points that tell nothing of it (undefined), and ends where the value is no number (null).
    const shownValue = (v) =>
      finite(v) && !(hidden() && v <= 0) ? v : v === null || v === undefined ? undefined : null;

    function readColours() {
      const style = getComputedStyle(element);
      const read = (name) => style.getPropertyValue(name).trim() || style.color;
      colours = { line: read(series.colour), text: read("--muted"), grid: read("--line"), bad: read("--failed") };
    }

    /** Marks where a value was told that is no number, at the foot of the chart. */
    function marks(u) {
      const { left, width, top, height } = u.bbox;
      const size = 3 * uPlot.pxRatio;
      u.ctx.save();
      u.ctx.strokeStyle = colours.bad;
      u.ctx.lineWidth = 1.5 * uPlot.pxRatio;
      u.ctx.beginPath();
      shared.placing.rows.forEach((row, index) => {
        if (typeof column[row] !== "string") return;
        const x = u.valToPos(shared.placing.x[index], "x", true);
        if (x < left || x > left + width) return;
        const y = top + height - 2 * size;
        u.ctx.moveTo(x - size, y - size);
        u.ctx.lineTo(x + size, y + size);
        u.ctx.moveTo(x - size, y + size);
        u.ctx.lineTo(x + size, y - size);
      });
      u.ctx.stroke();
      u.ctx.restore();
    }

    const longest = (labels) => labels.reduce((most, label) => Math.max(most, label.length), 0);

    function options(width) {
      const line = () => colours.line;
      const axis = {
        stroke: () => colours.text,
        grid: { stroke: () => colours.grid, width: 1 },
        ticks: { show: false },
        font: "12px system-ui, sans-serif",
      };
      const byTime = shared.by === "at";
      return {
        width,
        height: shared.height(width),
        legend: { show: false },
        padding: [10, 24, 0, 0],
        scales: { x: { time: byTime }, y: hidden() ? { distr: 3, range: logRange } : { range: plainRange } },
        axes: [
          {
            ...axis,
            size: byTime ? 42 : 30,
            space: width < 420 ? 48 : 64,
            ...(byTime ? {} : { splits: plainTicks(true, true) }),
            values: byTime ? timeLabels : (u, ticks) => ticks.map((tick) => Format.integer(tick)),
          },
          {
            ...axis,
            // As wide as its longest label.
            size: (_u, labels) => Math.min(110, Math.max(44, 18 + 7 * longest(labels ?? []))),
            space: 32,
            ...(hidden() ? { splits: logTicks, filter: (u, ticks) => ticks } : { splits: plainTicks(false) }),
            values: (u, ticks) => ticks.map((tick) => (tick === null ? "" : Format.number(tick))),
          },
        ],
        series: [{}, { stroke: line, width: 1.75, spanGaps: false, points: { size: 5, stroke: line, fill: line } }],
        cursor: {
          y: false,
          bind: { dblclick: () => () => shared.zoom(null) },
          drag: { x: true, y: false, setScale: false, dist: 4 },
          points: { size: 9, stroke: line, fill: line },
        },
        hooks: {
          setCursor: [(u) => shared.pointed(u.cursor.left, u.cursor.idx, u)],
          setSelect: [
            (u) => {
              if (u.select.width < 4) return;
              const range = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
              u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
              shared.zoom(range);
            },
          ],
          draw: [marks],
        },
      };
    }

    return {
      element,
      host,
      series,
      /** Whether anything at all is known of this series. */
      show(points) {
        column = Points.column(points, series.key);
        const some = shared.placing.rows.some((row) => column[row] !== null && column[row] !== undefined);
        element.hidden = !some;
        if (!some) return false;
        const data = [shared.placing.x, shared.placing.rows.map((row) => shownValue(column[row]))];
        if (plot === null) {
          readColours();
          plot = new uPlot(options(host.clientWidth || 600), data, host);
          plot.over.addEventListener("wheel", (event) => shared.wheel(event, plot), { passive: false });
          plot.over.addEventListener("touchmove", (event) => shared.touched(event, plot), { passive: true });
        } else {
          plot.batch(() => plot.setData(data, false));
        }
        const below = hidden()
          ? shared.placing.rows.filter((row) => finite(column[row]) && column[row] <= 0).length
          : 0;
        words.textContent = summary(series, shared.placing, points);
        note.textContent =
          below > 0 ? `${below} values are not above zero and have no place on a logarithmic scale.` : "";
        note.hidden = below === 0;
        return true;
      },
      range(min, max) {
        // At once, for cursors are placed on it right after.
        plot?.batch(() => plot.setScale("x", { min, max }));
      },
      /** Tells the point `index`, or the newest; draws the cursor there unless it is this chart that was pointed at. */
      point(index, from) {
        if (plot === null) return;
        const { rows, x } = shared.placing;
        const at = index ?? rows.length - 1;
        // A figure that few of the points have keeps its last value.
        let last = at;
        while (last > 0 && (column[rows[last]] ?? null) === null) last -= 1;
        const figure = told(column[rows[last]], series.unit);
        const text = last === at ? figure : `${figure} at ${shared.place(last)}`;
        value.textContent = text;
        host.setAttribute("aria-valuemax", String(rows.length));
        host.setAttribute("aria-valuenow", String(at + 1));
        host.setAttribute(
          "aria-valuetext",
          `${series.name} ${text}, ${shared.place(at)}, point ${at + 1} of ${rows.length}`,
        );
        if (from !== plot)
          plot.setCursor(index === null ? { left: -10, top: -10 } : { left: plot.valToPos(x[at], "x"), top: 1 }, false);
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

"use strict";
/* Points: the columns that a run document has of its curves, in the order of an axis, in words and as a table. */
const Points = (() => {
  const { el } = Draw;
  const MOST_IN_TABLE = 1000;
  const COLUMNS = [
    ["step", "Step"],
    ["loss", "Loss"],
    ["learning_rate", "Learning rate"],
    ["steps_per_s", "Steps/s"],
  ];
  // What is beyond these is no time and no step: a computer's clock, or a counter, gone wrong.
  const LAST_S = 1e11;
  const LAST_STEP = 1e15;
  const finite = (value) => typeof value === "number" && Number.isFinite(value);

  /** What was told of one series, point by point. Figures of training's own are told by their names. */
  const column = (points, key) => (key.startsWith("metric ") ? points.metrics?.[key.slice(7)] : points[key]) ?? [];

  /** The time of a point as people read it; null where it has none. */
  function time(points, row) {
    const at = points.at?.[row];
    return finite(at) && at >= 0 && at <= LAST_S ? Format.time(at) : null;
  }

  /** The points that have a place on the axis `by`, with x ascending; `left` counts those without one.
   *
   * Where training goes back to a checkpoint, steps come twice. By step the later ones stand; by time all do.
   */
  function placed(points, by) {
    const rows = [];
    let left = 0;
    (points.at ?? []).forEach((at, row) => {
      const x = by === "step" ? points.step?.[row] : at;
      if (by === "step" ? !finite(x) || Math.abs(x) > LAST_STEP : time(points, row) === null) {
        left += 1;
        return;
      }
      while (rows.length > 0 && points[by][rows[rows.length - 1]] >= x) {
        // A step that is only told again, while training stands still, is the same point.
        left += points[by][rows.pop()] > x ? 1 : 0;
      }
      rows.push(row);
    });
    return { rows, left, x: rows.map((row) => points[by][row]) };
  }

  /** A value as people read it; what is no number keeps its word. */
  function told(value, unit = "") {
    return Format.value(value ?? null) === null ? "not known" : Format.number(value) + unit;
  }

  /** What a chart shows, in a sentence or two. */
  function summary(series, placing, points) {
    const values = column(points, series.key);
    const known = placing.rows.filter((row) => finite(values[row]));
    const odd = placing.rows.filter((row) => typeof values[row] === "string");
    const where = (row) => {
      const step = points.step?.[row];
      return finite(step) ? `at step ${Format.integer(step)}` : `at ${time(points, row)}`;
    };
    const value = (row) => `${told(values[row], series.unit)} ${where(row)}`;
    const best = (better) => known.reduce((a, b) => (better(values[b], values[a]) ? b : a));
    const parts = [];
    if (known.length === 1) parts.push(`${value(known[0])}, the only point.`);
    else if (known.length > 1) {
      const [low, high] = [best((b, a) => b < a), best((b, a) => b > a)];
      parts.push(
        `First ${value(known[0])}, last ${value(known[known.length - 1])}, ` +
          `lowest ${value(low)}, highest ${value(high)}.`,
      );
    }
    if (odd.length > 0) {
      const many = odd.length === 1 ? "one point" : `${odd.length} points`;
      parts.push(`No number at ${many} (${Format.clip(values[odd[0]], 40)}), first ${where(odd[0])}: marked ×.`);
    }
    return parts.join(" ");
  }

  /** All points as a table that is filled when it is opened, the newest first: { element, fill(points) }. */
  function table() {
    let points = { at: [] };
    const body = el("tbody", {});
    const names = ["Time", ...COLUMNS.map(([, name]) => name)];
    const head = el(
      "thead",
      {},
      el(
        "tr",
        {},
        names.map((name) => el("th", { scope: "col" }, name)),
      ),
    );
    const box = el(
      "div",
      { class: "scroll-box", tabindex: "0", role: "region", "aria-label": "Points of the curves" },
      el("table", { class: "points" }, head, body),
    );
    const element = el("details", { class: "expand" }, el("summary", {}, "The points as a table"), box);

    function row(at) {
      return el(
        "tr",
        {},
        [time(points, at) ?? "not known", ...COLUMNS.map(([key]) => told(points[key]?.[at]))].map((text) =>
          el("td", {}, text),
        ),
      );
    }

    function fill(given) {
      points = given;
      if (element.open)
        body.replaceChildren(
          ...points.at
            .map((_, at) => at)
            .slice(-MOST_IN_TABLE)
            .reverse()
            .map(row),
        );
    }

    element.addEventListener("toggle", () => fill(points));
    return { element, fill };
  }

  return Object.freeze({ finite, column, time, placed, told, summary, table });
})();

"use strict";
/* Points: the columns that a run document has of its curves, in the order of an axis, in words and as a table. */
const Points = (() => {
  const { el } = Draw;
  const MOST_IN_TABLE = 1000;
  const COLUMNS = [["step", "Step"], ["loss", "Loss"], ["learning_rate", "Learning rate"], ["steps_per_s", "Steps/s"]];
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

  /** What was told of one series at the least and the greatest in each row; null where that is the value itself. */
  const bound = (points, which, key) => points[which]?.[key.replace(/^metric /, "")] ?? [];

  /** Where each row lies on the axis `by`: step, at, elapsed (seconds since the first row) or tokens; null for nowhere. */
  function places(points, by) {
    const at = points.at ?? [];
    if (by === "step") return at.map((_, row) => {
      const step = points.step?.[row];
      return finite(step) && Math.abs(step) <= LAST_STEP ? step : null;
    });
    const times = at.map((each, row) => (time(points, row) === null ? null : each));
    if (by !== "tokens") {
      const began = by === "elapsed" ? times.find((each) => each !== null) : 0;
      return times.map((each) => (each === null ? null : each - began));
    }
    // Tokens are told seldom: between two of them a row lies where its time does.
    const known = times.map((each, row) => [each, points.tokens?.[row]]).filter(([each, many]) =>
      each !== null && finite(many));
    let next = 0;
    return times.map((each) => {
      while (next < known.length && known[next][0] < each) next += 1;
      if (each === null || next === known.length) return null;
      const [until, most] = known[next], [since, least] = known[next - 1] ?? [known[0][0], known[0][1]];
      return until <= since ? most : least + ((most - least) * (each - since)) / (until - since);
    });
  }

  /** The points that have a place on the axis `by`, which may be `logarithmic`, with x ascending; `left` counts the others.
   *
   * Where training goes back to a checkpoint, steps come twice. By step the later ones stand; by time all do.
   */
  function placed(points, by, logarithmic = false) {
    const rows = [], found = places(points, by);
    let left = 0;
    found.forEach((x, row) => {
      if (x === null || (logarithmic && x <= 0)) {
        left += 1;
        return;
      }
      while (rows.length > 0 && found[rows[rows.length - 1]] >= x) {
        // A step that is only told again, while training stands still, is the same point.
        left += found[rows.pop()] > x ? 1 : 0;
      }
      rows.push(row);
    });
    return { rows, left, x: rows.map((row) => found[row]) };
  }

  /** The exponential moving average of a column, free of its beginning at zero; what is no number stands as it is. */
  function smoothed(values, weight) {
    let sum = 0, weights = 0;
    return values.map((value) => {
      if (!finite(value)) return value;
      sum = sum * weight + value * (1 - weight);
      weights = weights * weight + 1 - weight;
      return sum / weights;
    });
  }

  /** `table` with the rows of `told` that are newer than it is. */
  function extended(table, told) {
    const since = table.at.at(-1) ?? -Infinity;
    const rows = (told.at ?? []).map((_, row) => row).filter((row) => told.at[row] > since + 0.001);
    const longer = (column, more) => [...(column ?? table.at.map(() => null)), ...rows.map((row) => more?.[row] ?? null)];
    const names = new Set([...Object.keys(table.metrics), ...Object.keys(told.metrics ?? {})]);
    return { ...table, ...Object.fromEntries(["at", "step", "loss", "learning_rate", "steps_per_s", "tokens"].map((key) =>
      [key, longer(table[key], told[key])])),
    metrics: Object.fromEntries([...names].map((name) => [name, longer(table.metrics[name], told.metrics?.[name])])) };
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
    const parts = [], first = known[0], last = known[known.length - 1];
    if (known.length === 1) parts.push(`${value(first)}, the only point.`);
    else if (known.length > 1) {
      const [low, high] = [best((b, a) => b < a), best((b, a) => b > a)].map(value);
      parts.push(`First ${value(first)}, last ${value(last)}, lowest ${low}, highest ${high}.`);
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
    const head = el("thead", {}, el("tr", {}, names.map((name) => el("th", { scope: "col" }, name))));
    const box = el("div", { class: "scroll-box", tabindex: "0", role: "region", "aria-label": "Points of the curves" },
      el("table", { class: "points" }, head, body));
    const element = el("details", { class: "expand" }, el("summary", {}, "The points as a table"), box);

    const row = (at) => el("tr", {},
      [time(points, at) ?? "not known", ...COLUMNS.map(([key]) => told(points[key]?.[at]))].map((text) => el("td", {}, text)));

    function fill(given) {
      points = given;
      if (element.open) Draw.put(body, points.at.map((_, at) => at).slice(-MOST_IN_TABLE).reverse().map(row));
    }

    element.addEventListener("toggle", () => fill(points));
    return { element, fill };
  }

  return Object.freeze({ finite, column, bound, time, placed, smoothed, extended, told, summary, table });
})();

"use strict";
/* Choice: which runs people want to see, and in which order. It stands in the address, so that a link can be shared:
 * #/?q=oom+mistral&status=FAILED,TIMED_OUT&sort=loss.down
 *
 * It outlives the view of the fleet: who comes back from a run finds it as it was.
 */
const Choice = (() => {
  /** The chip of all runs that need somebody, whatever their status. */
  const NEED = "need";
  const MOST_TEXT = 500;
  const columns = new Map(Rows.COLUMNS.filter((column) => column.by).map((column) => [column.key, column]));
  let words = "", sorted = { key: "status", down: false };
  const statuses = new Set();

  function read() {
    const asked = Address.query();
    words = (asked.get("q") ?? "").slice(0, MOST_TEXT);
    statuses.clear();
    for (const one of (asked.get("status") ?? "").split(",")) {
      if (one === NEED || Object.hasOwn(Draw.STATUSES, one)) statuses.add(one);
    }
    const [key, way] = (asked.get("sort") ?? "").split(".");
    sorted = columns.has(key) ? { key, down: way === "down" } : { key: "status", down: false };
  }

  function address() {
    const asked = new URLSearchParams();
    if (words.trim()) asked.set("q", words.trim());
    if (statuses.size) asked.set("status", [...statuses].join(","));
    if (sorted.key !== "status" || sorted.down) asked.set("sort", `${sorted.key}${sorted.down ? ".down" : ""}`);
    const text = asked.toString().replaceAll("%2C", ",");
    return text ? `#/?${text}` : "#/";
  }

  /** Writes it into the address, unless people have gone elsewhere since. */
  function write() {
    App.fleetAt(address());
    if (!/^#\/(?:runs\/|causes|compare)/.test(location.hash)) Address.write(address());
  }

  let parsed = null, parsedOf = null;

  /** The words as a filter, made once for each text of them. */
  function filter() {
    if (parsedOf !== words) [parsed, parsedOf] = [Filter.parse(words), words];
    return parsed;
  }

  /** The ids of the runs that match, in the order that was chosen; ties in the order of need. */
  function ids() {
    const asked = filter();
    Data.askFor(asked.keys);
    const matches = (row) => {
      if (statuses.size && !statuses.has(row.shown) && !(statuses.has(NEED) && Rows.needs(row))) return false;
      return asked.matches(row);
    };
    // As they come, they are in the order of need: there is nothing to sort.
    if (sorted.key === "status" && !sorted.down) return Data.rows.filter(matches).map((row) => row.run_id);
    const found = [];
    Data.rows.forEach((row, rank) => {
      if (matches(row)) found.push({ id: row.run_id, row, rank, by: null });
    });
    const { by } = columns.get(sorted.key), way = sorted.down ? -1 : 1;
    for (const one of found) one.by = by(one.row, one.rank) ?? null;
    found.sort((one, other) => {
      if (one.by === other.by) return one.rank - other.rank;
      if (one.by === null || other.by === null) return one.by === null ? 1 : -1;
      return one.by < other.by ? -way : way;
    });
    return found.map((one) => one.id);
  }

  let counts = new Map(), countedOf = null;

  /** How many runs are shown as each status, and how many need somebody; counted once for each answer. */
  function counted() {
    if (countedOf === Data.fleet) return counts;
    counts = new Map([[NEED, 0]]);
    for (const row of Data.rows) {
      counts.set(row.shown, (counts.get(row.shown) ?? 0) + 1);
      if (Rows.needs(row)) counts.set(NEED, counts.get(NEED) + 1);
    }
    countedOf = Data.fleet;
    return counts;
  }

  function toggle(status) {
    if (!statuses.delete(status)) statuses.add(status);
  }

  function sortBy(key, down = Boolean(columns.get(key).down)) {
    sorted = { key, down };
  }

  /** A press on a column's head: sort by it, then the other way, then by who needs people first again. */
  function pressed(key) {
    const first = Boolean(columns.get(key).down);
    if (sorted.key !== key) sortBy(key);
    else if (key === "status" || sorted.down === first) sortBy(key, !sorted.down);
    else sortBy("status");
  }

  return Object.freeze({
    NEED, MOST_TEXT, read, write, ids, counted, toggle, sortBy, pressed, statuses, columns,
    get words() { return words; },
    set words(text) { words = text; },
    get fault() { return filter().fault; },
    get sorted() { return sorted; },
    /** Runs fold into groups in the order of need alone, and not where people look for runs by their words. */
    get folds() { return sorted.key === "status" && !sorted.down && words.trim() === ""; },
    get some() { return words.trim() !== "" || statuses.size > 0; },
  });
})();

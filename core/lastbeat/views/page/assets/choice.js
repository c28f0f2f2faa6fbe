"use strict";
/* Choice: which runs people want to see, in which order, with which columns. It stands in the address, so that a link
 * can be shared: #/?q=oom+mistral&status=FAILED,TIMED_OUT&sort=-loss,owner&cols=run!,status,lr~90&group=owner
 *
 * It outlives the view of the fleet: who comes back from a run finds it as it was.
 */
const Choice = (() => {
  /** The chip of all runs that need somebody, whatever their status. */
  const NEED = "need";
  const MOST_TEXT = 500, MOST_NAMES = 20;
  let words = "", sorts = [{ key: "status", down: false }], names = [], shown = Rows.COLUMNS, group = "";
  const statuses = new Set(), columns = new Map(Rows.COLUMNS.filter((column) => column.by).map((one) => [one.key, one]));

  const listed = (text) => [...new Set((text ?? "").slice(0, MOST_TEXT).split(",").filter(Boolean))].slice(0, MOST_NAMES);

  /** An order as the terminal has it, "-loss,owner"; or as in older links, "loss.down". */
  function ordered(text) {
    return listed(text).map((one) => ({ key: one.replace(/^-|\.(?:down|up)$/g, ""), down: /^-|\.down$/.test(one) }));
  }

  /** Takes what an address asks for, or a view: { q, status, sort, cols, group }. */
  function take(asked) {
    words = (asked.q ?? "").slice(0, MOST_TEXT);
    statuses.clear();
    for (const one of listed(asked.status)) {
      if (one === "WARNING") statuses.add("RUNNING (WARNING)");
      else if (one === NEED || Object.hasOwn(Draw.STATUSES, one)) statuses.add(one);
    }
    sorts = ordered(asked.sort);
    if (sorts.length === 0) sorts = [{ key: "status", down: false }];
    group = listed(asked.group)[0] ?? "";
    choose(listed(asked.cols));
  }

  const read = () => take(Object.fromEntries(Address.query()));

  /** Shows these columns, as Rows.parsed reads them. None: the usual ones. */
  function choose(wanted) {
    names = wanted;
    shown = names.length ? Rows.chosen(names) : Rows.COLUMNS;
  }

  /** What is chosen, as an address or a view has it. */
  function told() {
    const order = sorts.map(({ key, down }) => `${down ? "-" : ""}${key}`).join(",");
    return { q: words.trim(), status: [...statuses].join(","), sort: order === "status" ? "" : order, cols: names.join(","), group };
  }

  function address() {
    const asked = new URLSearchParams(Object.entries(told()).filter(([, text]) => text));
    const text = asked.toString().replaceAll("%2C", ",").replaceAll("%21", "!").replaceAll("%7E", "~");
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
    Data.askFor([...asked.keys, ...[...names.map((name) => Rows.parsed(name).name), group, ...sorts.map(({ key }) => key)]
      .filter((name) => name && !Rows.known(name) && !Filter.sent(name))]);
    const matches = (row) => {
      if (statuses.size && !statuses.has(row.shown) && !(statuses.has(NEED) && Rows.needs(row))) return false;
      return asked.matches(row);
    };
    // As they come, they are in the order of need: there is nothing to sort.
    if (inNeed()) return Data.rows.filter(matches).map((row) => row.run_id);
    const found = [], orders = sorts.map(({ key, down }) => ({ by: sortable(key), way: down ? -1 : 1 }));
    Data.rows.forEach((row, rank) => {
      if (matches(row)) found.push({ id: row.run_id, rank, by: orders.map(({ by }) => by(row, rank) ?? null) });
    });
    found.sort((one, other) => {
      for (const [index, { way }] of orders.entries()) {
        const [first, second] = [one.by[index], other.by[index]];
        if (first === second) continue;
        if (first === null || second === null) return first === null ? 1 : -1;
        if (typeof first !== typeof second) return typeof first === "number" ? -way : way;
        return first < second ? -way : way;
      }
      return one.rank - other.rank;
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

  const inNeed = () => sorts[0].key === "status" && !sorts[0].down;

  /** What a name sorts by: as its column does, else by its number or text. */
  const sortable = (key) => columns.get(key)?.by ?? ((row) => {
    const found = Filter.value(row, key), number = Filter.number(found);
    return Number.isNaN(number) ? null : number ?? (found === null ? null : String(found).toLowerCase());
  });

  const downFirst = (key) => Boolean(columns.get(key)?.down);

  function sortBy(key, down = downFirst(key)) {
    sorts = [{ key, down }];
  }

  /** A press on a column's head: sort by it, then the other way, then by who needs people first again. With `more`, shift,
   * it sorts those that are equal by the keys before. */
  function pressed(key, more) {
    const known = sorts.find((one) => one.key === key), first = downFirst(key);
    if (more && !(inNeed() && sorts.length === 1)) {
      if (!known) sorts = [...sorts, { key, down: first }];
      else if (known.down === first) known.down = !first;
      else sorts = sorts.length > 1 ? sorts.filter((one) => one !== known) : [{ key: "status", down: false }];
    } else if (!known || sorts.length > 1) sortBy(key);
    else if (key === "status" || known.down === first) sortBy(key, !known.down);
    else sortBy("status");
  }

  return Object.freeze({
    NEED, MOST_TEXT, read, take, told, choose, write, ids, counted, toggle, sortBy, pressed, statuses, columns,
    get words() { return words; },
    set words(text) { words = text; },
    get fault() { return filter().fault; },
    get sorts() { return sorts; },
    get names() { return names; },
    get shown() { return shown; },
    get group() { return group; },
    set group(key) { group = key; },
    /** Runs fold into groups in the order of need alone, and not where people look for runs by their words. */
    get folds() { return inNeed() && words.trim() === ""; },
    get some() { return words.trim() !== "" || statuses.size > 0; },
  });
})();

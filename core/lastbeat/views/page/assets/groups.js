"use strict";
/* Groups: runs that are in trouble together for one reason are one line of the table, with one hint, until somebody
 * opens it.
 *
 * Groups.folded(ids) → lines of the table: { key, id, member } for a run, { key, name, rows } for a group; the runs of
 * a group that is open follow it. A group keeps its name while any of its runs is in it, so it stays open while runs
 * join and leave it.
 */
const Groups = (() => {
  const { el } = Draw;
  /** Fewer than these are shown one by one. */
  const LEAST = 3;
  /** Runs that got into trouble further apart than this are not in it together. */
  const TOGETHER_MS = 15 * 60000;
  const MOST_NAMES = 40;
  const kinds = new WeakMap();
  const opened = new Set();
  let names = new Map(), named = 0;

  /** Figures differ from run to run where the trouble is the same. */
  const withoutFigures = (text) => (text ?? "").replace(/\d[\d.,:]*/g, "#");

  const stands = (row) => Rows.still(row, Data.now() ?? Date.now());

  /** What runs of one group have in common; null: such a run stands alone. */
  function kind(row) {
    if (row.complete === false || !Rows.needs(row)) return null;
    let known = kinds.get(row);
    if (known === undefined) {
      const told = row.action || row.cause ? row.action : row.doubt || (stands(row) && "no step") || row.reason || row.fault;
      known = JSON.stringify([row.shown, Boolean(row.doubt), row.cause, withoutFigures(told)]);
      kinds.set(row, known);
    }
    return known;
  }

  const began = (row) => Format.moment(row.doubt ? row.beat_at : stands(row) ? row.step_at : row.since);

  /** Rows of one kind, told apart by when each got into trouble. */
  function together(rows) {
    const timed = rows.map((row) => ({ row, at: began(row) ?? 0 })).sort((one, other) => one.at - other.at);
    const found = [];
    timed.forEach((each, index) => {
      if (index === 0 || each.at - timed[index - 1].at > TOGETHER_MS) found.push([]);
      found[found.length - 1].push(each.row);
    });
    return found.filter((group) => group.length >= LEAST);
  }

  function folded(ids) {
    const alike = new Map();
    for (const id of ids) {
      const row = Data.row(id), is = row && kind(row);
      if (is) alike.has(is) ? alike.get(is).push(row) : alike.set(is, [row]);
    }
    const groupOf = new Map(), taken = new Set();
    for (const rows of alike.values()) {
      for (const members of together(rows)) {
        let name = members.map((row) => names.get(row.run_id)).find((each) => each && !taken.has(each));
        if (!name) name = `group-${(named += 1)}`;
        taken.add(name);
        const inside = new Set(members.map((row) => row.run_id));
        for (const id of inside) groupOf.set(id, { name, inside });
      }
    }
    names = new Map([...groupOf].map(([id, { name }]) => [id, name]));
    const lines = [], done = new Set();
    for (const id of ids) {
      const group = groupOf.get(id);
      if (!group) lines.push({ key: `run ${id}`, id, member: false });
      else if (!done.has(group.name)) {
        done.add(group.name);
        const members = ids.filter((each) => group.inside.has(each));
        lines.push({ key: group.name, name: group.name, rows: members.map(Data.row) });
        if (opened.has(group.name)) members.forEach((each) => lines.push({ key: `run ${each}`, id: each, member: true }));
      }
    }
    return lines;
  }

  /** The same for runs that have one value under `key`; such a group is open until somebody closes it. */
  function by(ids, key) {
    const parts = new Map();
    for (const id of ids) {
      const row = Data.row(id), name = row && `by ${key}: ${Filter.value(row, key) ?? "none"}`;
      if (row) parts.has(name) ? parts.get(name).push(row) : parts.set(name, [row]);
    }
    return [...parts].flatMap(([name, rows]) => [{ key: name, name, rows },
      ...(opened.has(name) ? [] : rows.map(({ run_id: id }) => ({ key: `run ${id}`, id, member: true })))]);
  }

  function toggle(name) {
    if (!opened.delete(name)) opened.add(name);
  }

  // ---- how a group is drawn -----------------------------------------------------------------------------------

  const shared = (rows, of) => {
    const first = of(rows[0]);
    return rows.every((row) => of(row) === first) ? first : null;
  };

  /** From the newest to the oldest: "for 12 m", "for 12 to 25 m". */
  function lasted(rows, at) {
    const times = rows.map(began).filter((each) => each !== null);
    if (times.length === 0) return "";
    const [least, most] = [at - Math.max(...times), at - Math.min(...times)].map((each) => Format.duration(each / 1000));
    return least === most ? `for ${least}` : `for ${least} to ${most}`;
  }

  /** What happened to all of them; where each has figures of its own, to the first. */
  function reason(rows) {
    const of = (row) => row.doubt || stands(row) || row.reason || row.fault || "";
    return Format.clip(shared(rows, of) ?? `${rows[0].run_id}: ${of(rows[0])}`, 400);
  }

  function hint(rows) {
    const same = shared(rows, (row) => row.action);
    const told = same ?? (rows[0].action ? `${rows[0].run_id}: ${rows[0].action}` : null);
    return told ? el("p", { class: "todo" }, Format.clip(told, 600)) : null;
  }

  /** What a group by a key says: its value, and how its runs are. */
  function counted(name, rows) {
    const counts = new Map(), ids = rows.map((row) => row.run_id);
    for (const row of rows) counts.set(row.shown, (counts.get(row.shown) ?? 0) + 1);
    return { title: `${Format.clip(name.slice(3), 120)} · ${Format.count(rows.length, "run")}`,
      what: [[...counts].map(([shown, some]) => [Draw.status(shown), ` ${Format.integer(some)} `]),
        Compare.takes(ids) ? el("a", { class: "quiet", href: Compare.address(ids) }, `Compare these ${ids.length}`) : null] };
  }

  /** What a group says that is in trouble together. */
  function told(rows, at, open) {
    const { cause } = rows[0], why = reason(rows), ids = rows.slice(0, MOST_NAMES).map((row) => row.run_id);
    return { title: `${Format.count(rows.length, "run")} together`, since: lasted(rows, at),
      what: [cause ? [el("b", { class: "cause" }, Format.clip(cause, 80)), " "] : null, el("span", { title: why }, why)],
      below: [hint(rows), open ? null : el("p", { class: "names" }, ids.join(", "))] };
  }

  /** The line of a group: .update(rows, { at }). */
  function make(name) {
    const byKey = name.startsWith("by "), line = el("tr", { role: "row", data: { key: name } });
    function update(rows, { at }) {
      const open = opened.has(name) !== byKey, { title, since, what, below } = byKey ? counted(name, rows) : told(rows, at, open);
      line.className = `group${byKey ? " by" : ""}${open ? " open" : ""}`;
      if (!byKey) line.dataset.status = Draw.looksOf(rows[0]).name;
      Morph.put(line, el("td", { class: "c-status", role: "cell" }, byKey ? null : Draw.statusOf(rows[0])),
        el("td", { class: "c-group", role: "cell" }, el("div", { class: "told" },
          el("button", { type: "button", class: "group-toggle", "aria-expanded": String(open), data: { fold: name } },
            el("span", { class: "fold", "aria-hidden": "true" }, open ? "▾" : "▸"), el("span", {}, title)),
          el("span", { class: "since" }, since), el("span", { class: "what" }, what)), el("div", { class: "below" }, below)));
    }
    return { line, update };
  }

  return Object.freeze({ folded, by, toggle, make });
})();

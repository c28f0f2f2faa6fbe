"use strict";
/* Columns: the panel in which people choose, order, pin and size columns, group runs, and keep all that is chosen as a view
 * under a name: their own in this browser, a team's in _watchdog/views.json.
 *
 *   const panel = Columns.make(changed)   changed(): something was chosen here
 *   panel.element, panel.update()
 */
const Columns = (() => {
  const { el, put, button } = Draw;
  const KEPT = "lastbeat-views", MOST_KEPT = 50, NAME_LIMIT = 60;
  const USUAL = Rows.COLUMNS.filter(({ title }) => title !== null).map(({ key }) => key);
  let here = {};

  function kept() {
    try {
      here = JSON.parse(localStorage.getItem(KEPT) ?? "{}") ?? {};
    } catch {
      // Some browsers keep nothing for a page from a file; then views last until the page is loaded anew.
    }
    return here;
  }

  function keep(views) {
    here = views;
    try {
      localStorage.setItem(KEPT, JSON.stringify(Object.fromEntries(Object.entries(views).slice(-MOST_KEPT))));
    } catch {
      // As above.
    }
  }

  const ofTeam = (view) => ({ q: view.filter, status: view.status, sort: view.sort, cols: view.columns, group: view.group });

  /** What is chosen, as the team has it. */
  function forTeam() {
    const { q, status, sort, cols, group } = Choice.told();
    return { filter: q, status: status.replace("RUNNING (WARNING)", "WARNING"), sort, columns: cols, group };
  }

  /** What saves the same for a team, for any shell. */
  const command = (name) => ["lastbeat fleet", ...Object.entries({ ...forTeam(), "save-view": name }).filter(([, text]) => text)
    .map(([option, text]) => `--${option}='${text.replaceAll("'", "'\\''")}'`)].join(" ");

  function make(changed) {
    const list = el("ol", { class: "columns" }), select = (label) => el("select", { "aria-label": label });
    const [add, group, views] = ["Add a column", "Group by", "Show a view"].map(select);
    const name = el("input", { type: "text", maxlength: NAME_LIMIT, placeholder: "Name of this view", "aria-label": "Name of this view" });
    const said = el("p", { class: "said muted", role: "status" });
    let known = null;

    const current = () => (Choice.names.length ? Choice.names : USUAL).map(Rows.parsed);
    function set(columns) {
      Choice.choose(columns.map(Rows.written));
      changed();
    }
    const options = (first, names) => [el("option", { value: "" }, first),
      names.map((one) => el("option", { value: one }, Rows.label(one)))];

    list.addEventListener("click", ({ target }) => {
      const { act, at } = target.dataset, columns = current();
      if (!act) return;
      const [one] = columns.splice(at, 1);
      if (act === "pin") columns.splice(at, 0, { ...one, pinned: !one.pinned });
      else if (act !== "out") columns.splice(Math.max(0, Number(at) + (act === "up" ? -1 : 1)), 0, one);
      set(columns);
    });
    list.addEventListener("change", ({ target }) => set(current().map((one, at) =>
      (at === Number(target.dataset.at) ? { ...one, width: Number(target.value) } : one))));
    add.addEventListener("change", () => add.value && set([...current(), Rows.parsed(add.value)]));
    group.addEventListener("change", () => {
      Choice.group = group.value;
      changed();
    });
    views.addEventListener("change", () => {
      const [whose, which] = [views.value.slice(0, 1), views.value.slice(1)];
      const view = whose === "t" ? Data.fleet?.views?.find((one) => one.name === which) : kept()[which];
      if (!view) return;
      name.value = which;
      Choice.take(whose === "t" ? ofTeam(view) : view);
      changed();
    });

    /** A button that does something with the name; without one it asks for it. */
    const naming = (words, act) => button(words, () => {
      const given = name.value.trim();
      if (!given) return name.focus();
      act(given);
      update();
    });
    const save = naming("Keep in this browser", (given) => {
      keep({ ...kept(), [given]: Choice.told() });
      put(said, "Kept. For the team, in a terminal: ", el("code", {}, command(given)));
    });
    const forget = naming("Forget", (given) => {
      const { [given]: _gone, ...rest } = kept();
      keep(rest);
      put(said, "Forgotten in this browser.");
    });
    const element = el("details", { class: "choosing" }, el("summary", {}, "Columns and views"), list);
    const ask = Silencing.asker(element, said, update);
    const share = naming("Save for the team", (given) => ask({ view: given, ...forTeam() }, "Saving …", ({ done }) =>
      `${done} for the team: ${given}.`));
    element.append(el("div", { class: "silence-form" }, add, group, button("Usual columns", () => set([])), views, name, save, share,
      forget), said);

    function entry({ name: key, pinned, width }, at) {
      const label = Rows.label(key), press = (words, act, told) =>
        button(words, null, { "aria-label": told, title: told, data: { act, at } });
      return el("li", { "data-key": key }, el("span", {}, label), press("↑", "up", `Move ${label} up`),
        press("↓", "down", `Move ${label} down`),
        press(pinned ? "Unpin" : "Pin", "pin", `${pinned ? "Unpin" : "Pin"} ${label}`),
        el("input", { type: "number", min: Rows.LEAST_PX, max: Rows.MOST_PX, step: 10, value: width, placeholder: "width",
          "aria-label": `Width of ${label} in pixels`, data: { at } }), press("×", "out", `Leave out ${label}`));
    }

    function update() {
      const columns = current(), team = (Data.fleet?.views ?? []).map((one) => one.name), mine = Object.keys(kept());
      const keys = Data.fleet?.keys ?? [], names = columns.map((one) => one.name), held = document.activeElement;
      share.hidden = Data.embedded || !Data.mayOperate;
      const facts = JSON.stringify([columns, Choice.group, team, mine, keys]);
      if (facts === known) return;
      known = facts;
      Morph.put(list, columns.map(entry));
      // What people typed is not what stands there.
      for (const input of list.querySelectorAll("input")) input.value = input.getAttribute("value") ?? "";
      if (list.contains(held)) held.focus();
      put(add, options("Add a column …", [...USUAL, ...Object.keys(Rows.FIELDS), ...keys].filter((one) => !names.includes(one))));
      put(group, options("No groups", [...new Set(["owner", "tag", "team", "cause", "status", "host", ...keys, Choice.group])].filter(Boolean)));
      group.value = Choice.group;
      put(views, el("option", { value: "" }, "Show a view …"), team.map((one) => el("option", { value: `t${one}` }, `${one} (team)`)),
        mine.map((one) => el("option", { value: `h${one}` }, one)));
    }
    return { element, update };
  }

  return Object.freeze({ make });
})();

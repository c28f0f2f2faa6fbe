"use strict";
/* Columns: the panel in which people choose, order and pin columns, group runs, and keep all that is chosen as a view
 * under a name: their own in this browser, a team's in _watchdog/views.json.
 *
 *   const panel = Columns.make(changed)   changed(): something was chosen here
 *   panel.element, panel.update()
 */
const Columns = (() => {
  const { el, put } = Draw;
  const KEPT = "lastbeat-views", MOST_KEPT = 50, NAME_LIMIT = 60;
  const USUAL = ["status", "run", "progress", "eta", "loss", "speed", "beat", "strip", "cause", "attempt"];
  const FIELDS = ["owner", "team", "tag", "host", "phase", "gpus", "gpu_hours", "total_steps"];
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

  /** What saves the same for a team, for any shell. */
  function command(name) {
    const { q, status, sort, cols, group } = Choice.told(), quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
    const options = [["filter", q], ["status", status.replace("RUNNING (WARNING)", "WARNING")], ["sort", sort],
      ["columns", cols], ["group", group], ["save-view", name]];
    return ["lastbeat fleet", ...options.filter(([, text]) => text).map(([option, text]) => `--${option}=${quoted(text)}`)].join(" ");
  }

  function make(changed) {
    const list = el("ol", { class: "columns" }), add = el("select", { "aria-label": "Add a column" });
    const group = el("select", { "aria-label": "Group by" }), views = el("select", { "aria-label": "Show a view" });
    const name = el("input", { type: "text", maxlength: NAME_LIMIT, placeholder: "Name of this view", "aria-label": "Name of this view" });
    const said = el("p", { class: "muted", role: "status" }), press = (words, act, label) =>
      el("button", { type: "button", class: "quiet", "aria-label": label, title: label, on: { click: act } }, words);
    let known = null;

    const current = () => (Choice.names.length ? Choice.names : USUAL);
    function set(names) {
      Choice.choose(names);
      changed();
    }
    function moved(index, by) {
      const names = [...current()], [one] = names.splice(index, 1);
      names.splice(Math.max(0, index + by), 0, one);
      set(names);
    }
    const options = (first, names) => [el("option", { value: "" }, first), names.map((one) => el("option", { value: one }, one))];

    add.addEventListener("change", () => add.value && set([...current(), add.value]));
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
    const save = press("Keep in this browser", () => {
      if (!name.value.trim()) return name.focus();
      keep({ ...kept(), [name.value.trim()]: Choice.told() });
      put(said, "Kept. For the team, in a terminal: ", el("code", {}, command(name.value.trim())));
      update();
    });
    const forget = press("Forget", () => {
      const { [name.value.trim()]: _gone, ...rest } = kept();
      keep(rest);
      put(said, "Forgotten in this browser.");
      update();
    });
    const element = el("details", { class: "choosing" }, el("summary", {}, "Columns and views"), list,
      el("div", { class: "silence-form" }, add, group, press("Usual columns", () => set([])), views, name, save, forget), said);

    function update() {
      const names = current(), team = (Data.fleet?.views ?? []).map((one) => one.name), mine = Object.keys(kept());
      const facts = JSON.stringify([names, Choice.group, team, mine, Data.fleet?.keys]);
      if (facts === known) return;
      known = facts;
      const held = list.contains(document.activeElement) && document.activeElement.getAttribute("aria-label");
      const bare = names.map((one) => one.replace(/!$/, "")), all = [...USUAL, ...FIELDS, ...(Data.fleet?.keys ?? [])];
      put(list, names.map((one, index) => el("li", {}, el("span", {}, bare[index]),
        press("↑", () => moved(index, -1), `Move ${bare[index]} up`), press("↓", () => moved(index, 1), `Move ${bare[index]} down`),
        press(one.endsWith("!") ? "Unpin" : "Pin", () => set(names.map((each) => (each !== one ? each
          : one.endsWith("!") ? bare[index] : `${one}!`))), `${one.endsWith("!") ? "Unpin" : "Pin"} ${bare[index]}`),
        press("×", () => set(names.filter((each) => each !== one)), `Leave out ${bare[index]}`))));
      if (held) list.querySelector(`[aria-label="${CSS.escape(held)}"]`)?.focus();
      put(add, options("Add a column …", all.filter((one) => !bare.includes(one))));
      put(group, options("No groups", [...new Set(["owner", "tag", "team", "cause", "status", "host", ...(Data.fleet?.keys ?? []), Choice.group])].filter(Boolean)));
      group.value = Choice.group;
      put(views, el("option", { value: "" }, "Show a view …"), team.map((one) => el("option", { value: `t${one}` }, `${one} (team)`)),
        mine.map((one) => el("option", { value: `h${one}` }, one)));
    }
    return { element, update };
  }

  return Object.freeze({ make });
})();

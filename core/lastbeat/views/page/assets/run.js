"use strict";
/* Run: all about one run, from what needs people down to where its files lie. It is updated in place.
 *
 *   const stop = Run.show(main, id)   fills `main` and keeps it up to date until `stop()`
 */
const Run = (() => {
  const { el, put, muted } = Draw;
  const placed = new WeakSet();

  /** Changes what stands in `node`. Boxes that were at their end stay there; a marked line is in sight at first. */
  function change(node, nodes) {
    const boxes = [...node.querySelectorAll("[data-follow]")];
    const atEnd = boxes.filter((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 4);
    Morph.put(node, nodes);
    for (const box of node.querySelectorAll("[data-follow]")) {
      if (atEnd.includes(box) || !boxes.includes(box)) box.scrollTop = box.scrollHeight;
    }
    for (const line of node.querySelectorAll(".line.marked")) {
      const box = line.parentNode;
      if (!placed.has(box)) box.scrollTop = line.offsetTop - box.offsetTop - box.clientHeight / 3;
      placed.add(box);
    }
  }

  function section(id, title) {
    const body = el("div", {}), heading = el("h2", { id: `h-${id}`, tabindex: "-1" }, title);
    return { id, title, body, element: el("section", { class: "panel", id: `s-${id}`, "aria-labelledby": `h-${id}`, hidden: true },
      heading, body) };
  }

  async function copy(button, root) {
    const source = root.querySelector(`#${CSS.escape(button.dataset.copy)}`);
    let done = false;
    try {
      await navigator.clipboard.writeText(source.textContent);
      done = true;
    } catch {
      // Not every browser lets a page do that: then it is selected, for people to copy.
      getSelection().selectAllChildren(source);
    }
    Draw.setText(button, done ? "Copied" : "Selected: press Ctrl+C");
    App.announce(button.textContent);
    setTimeout(() => Draw.setText(button, "Copy"), 3000);
  }

  /** What is said instead of a run that cannot be shown, and what people can do. */
  function absent(id, fault) {
    const gone = fault.status === 404 || fault.status === 400;
    const known = /^lastbeat [a-z]/.test(fault.advice ?? "");
    const [advice, command] = known ? ["A terminal tells more:", fault.advice] : gone
        ? [fault.advice || "It may have been deleted, or have another name. In a terminal:", "lastbeat fleet"]
        : Data.embedded ? ["The page that lastbeat dashboard serves has all about every run, and so has the terminal:", Data.command("show", id)]
          : [`${fault.advice ?? ""} It is tried again with each update.`.trim(), Data.command("show", id)];
    return [
      el("h2", {}, gone ? "There is no such run." : Data.embedded ? fault.message : "This run cannot be seen now."),
      gone || !Data.embedded ? el("p", {}, fault.message) : null,
      el("p", {}, App.marked(advice)), el("pre", {}, el("code", {}, command)),
      el("p", {}, el("a", { href: "#/", class: "back" }, "All runs")),
    ];
  }

  /** Fills `main` with all about run `id`, and keeps it up to date. Returns what ends that. */
  function show(main, id) {
    const view = { whole: new Set(), rank: null };
    let doc = null, stopped = false, asking = false;
    const curves = Curves.ofRun(id);
    const title = el("h1", { class: "run-title", id: "run-title", tabindex: "-1" }, id);
    const banner = el("div", { role: "status" });
    const state = el("div", { class: "panel state-panel" });
    const loading = el("p", { class: "muted loading", role: "status" }, "Reading this run …");
    const sections = Sections.ALL.map(([name, words]) => section(name, words));
    const contents = el("nav", { class: "contents", "aria-label": "On this page" });
    const [known, quiet, acts] = [Acknowledging, Silencing, Acting].map((each) => each.make(id));
    sections.find((each) => each.id === "curves").body.append(curves.element);
    const root = el("div", { class: "run" },
      el("header", { class: "run-head" }, el("a", { class: "back", href: "#/" }, "← All runs"), title), banner, loading,
      el("div", { class: "run-body" }, contents, el("div", { class: "run-main" }, state, known.element, quiet.element, acts.element,
        el("div", { class: "run-sections" }, sections.map((each) => each.element)))));
    state.hidden = contents.hidden = true;
    put(main, root);

    function draw() {
      const now = Format.moment(doc.at);
      loading.hidden = true;
      state.hidden = contents.hidden = false;
      state.dataset.status = Draw.looksOf(doc.run).name;
      change(state, Account.state(doc, now));
      showSilence();
      sections.forEach((each, index) => {
        const build = Sections.ALL[index][2];
        if (build === null) {
          each.element.hidden = false;
          curves.update(doc);
          return;
        }
        let nodes;
        try {
          nodes = build(doc, now, view);
        } catch (fault) {
          // Data of another kind than this page expects: what else is known still shows.
          console.error(fault);
          nodes = muted("This part cannot be shown: its data are not as this page expects them.");
        }
        each.element.hidden = nodes === null;
        change(each.body, nodes ?? []);
      });
      change(contents, el("ul", {}, sections.filter((each) => !each.element.hidden).map((each) =>
        el("li", { "data-key": each.id }, el("button", { type: "button", "data-goto": `h-${each.id}` }, each.title)))));
    }

    /** The fleet's listing shows a change sooner than the run does, which remembers silences for a minute. */
    function showSilence() {
      const row = Data.row(id);
      quiet.update([row === null ? doc?.run.silenced : row.silenced]);
      if (doc === null) return;
      known.update(doc);
      acts.update(doc);
    }

    function take(next) {
      doc = next;
      change(banner, []);
      draw();
    }

    /** What was last known stands; above it is said that it is old. */
    function refuse(fault) {
      loading.hidden = true;
      if (doc === null) return change(banner, el("div", { class: "empty", "data-key": "absent" }, absent(id, fault)));
      change(banner, el("div", { class: "note" },
        el("p", {}, el("strong", {}, fault.status === 404 ? "This run is gone: " : "This run cannot be seen now: "), fault.message),
        el("p", {}, fault.advice && `${fault.advice} `, `This is how it was last seen, ${Format.time(doc.at, Date.now(), true)}.`)));
    }

    async function look() {
      // A file's data are unpacked first.
      if (asking || stopped || (Data.embedded && Data.fleet === null)) return;
      asking = true;
      try {
        const next = await Data.run(id);
        if (!stopped) take(next);
      } catch (fault) {
        if (!stopped) refuse(fault);
        if (!(fault instanceof Data.Fault)) console.error(fault);
      } finally {
        asking = false;
      }
    }

    root.addEventListener("click", (event) => {
      if (event.target.closest(".back") !== null) {
        event.preventDefault();
        App.back();
        return;
      }
      const button = event.target.closest("button, [role=option]");
      if (button === null) return;
      if (button.dataset.goto) {
        const heading = document.getElementById(button.dataset.goto);
        heading.scrollIntoView({ block: "start" });
        heading.focus({ preventScroll: true });
      } else if (button.dataset.whole) {
        const box = button.closest(".log");
        view.whole.add(button.dataset.whole);
        draw();
        box.focus({ preventScroll: true });
      } else if (button.dataset.copy) copy(button, root);
      else if (button.dataset.rank) choose(button);
    });
    root.addEventListener("keydown", (event) => {
      if (event.target.getAttribute("role") !== "option" || event.ctrlKey || event.metaKey || event.altKey) return;
      const to = Ranks.neighbour(event.target, event.key);
      if (to === null) return;
      event.preventDefault();
      choose(to);
    });

    function choose(cell) {
      view.rank = Number(cell.dataset.rank);
      const body = sections.find((each) => each.id === "ranks").body;
      change(body, Ranks.build(doc, view.rank));
      body.querySelector(`[data-rank="${view.rank}"]`).focus();
    }

    Data.want([id]);
    // The fleet's data come with each interval, changed or not. A server that does not answer is told of by the page.
    const unsubscribe = Data.subscribe((event) => {
      if (event.kind === "fleet" || doc === null) look();
      if (event.kind === "fleet" && doc !== null) showSilence();
      loading.hidden ||= Data.state.mode === "broken";
    });
    look();

    return () => {
      stopped = true;
      unsubscribe();
      curves.close();
    };
  }

  return Object.freeze({ show });
})();

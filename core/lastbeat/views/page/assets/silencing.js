"use strict";
/* Silencing: a form that keeps runs quiet for a while, and the silences that stand, each with a button that lifts it.
 *
 *   const quiet = Silencing.make(id)   of one run; without an id of any runs, by a glob
 *   quiet.element                      hidden unless this browser was let in by the token to operate
 *   quiet.update(silences)             with each answer: those that cover the run, or all
 *
 * Nothing counts as done before the server says that it is in the store. What it said stands here at once, and until
 * the data that are polled have had the time to say the same.
 */
const Silencing = (() => {
  const { el, setText, button, muted } = Draw;
  const LENGTHS = [["1", "1 hour"], ["4", "4 hours"], ["24", "24 hours"]];
  const TEXT_LIMIT = 200, NAME_LIMIT = 50;
  /** So long the store's listing, and what remembers it, may take to show a change. */
  const SHOWN_BY_MS = 90000;
  /** What the server said, by the silence's id: { silence, at }, or { silence: null, at } for one that was lifted. */
  const told = new Map();

  const until = (silence) => `until ${Format.time(silence.until, Date.now())}`;

  /** Those of `given`, with what was done here since; `mine`: whether one that was made here belongs to them. */
  function standing(given, mine) {
    const found = new Map(given.filter(Boolean).map((one) => [one.id, one]));
    for (const [id, { silence, at }] of [...told]) {
      if (Date.now() - at > SHOWN_BY_MS) told.delete(id);
      else if (silence === null) found.delete(id);
      else if (mine(silence)) found.set(id, silence);
    }
    const now = Data.now();
    return [...found.values()].filter((one) => now === null || !(Format.moment(one.until) <= now));
  }

  /** Whether it was done is known where the server refused, and not where an answer is missing. */
  function refused(fault) {
    const known = fault.status >= 400 && fault.status !== 500 && fault.status !== 504;
    const lead = known ? "Not done." : "Not known to be done.";
    return `${lead} ${fault.message} ${fault.advice ?? ""}`.trim();
  }

  /** What asks the server for one change at a time, and says in `said` what becomes of it; then calls `show`. The button
   * stays where the focus is: one that cannot be pressed would lose it. */
  function asker(node, said, show) {
    let working = false;
    function say(text, bad) {
      said.classList.toggle("bad", bad);
      setText(said, text);
    }
    return async (asked, words, done) => {
      if (working) return;
      working = true;
      node.setAttribute("aria-busy", "true");
      say(words, false);
      try {
        say(done(await Data.change(asked)), false);
        Data.again();
      } catch (fault) {
        if (!(fault instanceof Data.Fault)) console.error(fault);
        say(fault instanceof Data.Fault ? refused(fault) : "Not known to be done. The answer cannot be read.", true);
      } finally {
        working = false;
        node.removeAttribute("aria-busy");
      }
      show();
    };
  }

  /** What people open to change something: a form of `fields`, and what stands before and after it. */
  function panel({ name, words, lead, fields, submit, show, before = null, after = null }) {
    const said = el("p", { class: "said", role: "status", "aria-live": "polite" }), summary = el("summary", {}, words);
    const form = el("form", { class: "silence-form", autocomplete: "off", on: { submit: (event) => {
      event.preventDefault();
      submit();
    } } }, fields);
    const element = el("details", { class: name, hidden: true }, summary, muted(lead), before, form, said, after);
    return { element, form, summary, said, ask: asker(form, said, show) };
  }

  const textInput = (name, placeholder, more = {}) =>
    el("input", { type: "text", name, placeholder, maxlength: TEXT_LIMIT, autocomplete: "off", ...more });
  const field = (words, control) => el("label", { class: "field" }, el("span", {}, words), control);

  /** Where people enter a name; the next form has what they entered here. */
  function nameInput() {
    const input = textInput("by", null, { maxlength: NAME_LIMIT, autocomplete: "name",
      on: { focus: () => { if (input.value === "") input.value = name; }, change: () => { name = input.value; } } });
    input.value = name;
    return input;
  }
  let name = "";

  function became(answer, silence) {
    const many = answer.matches;
    const covers = many === null || many === undefined ? ""
      : many === 0 ? " It matches 0 runs yet." : ` It covers ${Format.count(many, "run")} now.`;
    return `${Format.clip(silence.runs, 120)} is silenced ${until(silence)}.${covers}`;
  }

  function make(id = null) {
    const runs = textInput("runs", "mistral-*", { required: true, spellcheck: "false", autocapitalize: "none" });
    const length = el("select", { name: "for" }, LENGTHS.map(([hours, words]) => el("option", { value: hours }, words)));
    const why = textInput("why", "node repair"), by = nameInput(), words = id === null ? "Silence runs" : "Silence this run";
    const list = el("ul", { class: "plain silences", "aria-label": "Silences" });
    const { element, summary, ask } = panel({ name: "silencing", words, submit: silence, show, after: list,
      lead: "What happens is recorded, and no alert is sent. Watchers heed this within a minute.",
      fields: [id === null && field("Runs", runs), field("Silence for", length), field("Reason (optional)", why),
        field("Your name (optional)", by), button("Silence", null, { type: "submit" })] });
    list.addEventListener("click", (event) => {
      const pressed = event.target.closest("button");
      if (pressed !== null) lift(pressed);
    });
    let given = [];

    function show() {
      element.hidden = Data.embedded || !Data.mayOperate;
      const found = standing(given, (one) => id === null || one.runs === id);
      setText(summary, `${words}${found.length ? ` (${found.length})` : ""}`);
      list.hidden = found.length === 0;
      Morph.put(list, found.map((one) => el("li", { "data-key": one.id },
        el("span", {}, el("b", {}, Format.clip(one.runs, 200)), ` ${until(one)}, by ${Format.clip(one.by, 100)}`,
          one.why && `: ${Format.clip(one.why, 200)}`), " ",
        button("Lift", null, { "data-lift": one.id, "data-runs": one.runs, "aria-label": `Lift the silence of ${one.runs}` }))));
    }

    function silence() {
      const asked = { runs: id ?? runs.value.trim(), for_s: Number(length.value) * 3600, why: why.value, by: by.value };
      ask(asked, "Silencing …", (answer) => {
        const [stands] = answer.silences;
        told.set(stands.id, { silence: stands, at: Date.now() });
        why.value = "";
        return [became(answer, stands), ...(answer.notes ?? []).map((note) => Format.clip(note, 300))].join(" ");
      });
    }

    function lift(pressed) {
      const { lift: which, runs: glob } = pressed.dataset;
      ask({ lift: which }, "Lifting …", (answer) => {
        for (const one of answer.silences) told.set(one.id, { silence: null, at: Date.now() });
        // Its button goes.
        summary.focus();
        return `The silence of ${Format.clip(glob, 120)} is lifted. Watchers heed that within a minute.`;
      });
    }

    return {
      element,
      update(silences) {
        given = silences;
        show();
      },
    };
  }

  return Object.freeze({ make, asker, panel, field, textInput, nameInput });
})();

"use strict";
/* Around: what is said below the table of a fleet, and in its place where there is nothing to show. */
const Around = (() => {
  const { el } = Draw;
  const SEARCHED = "All words must be in a run's name, status, conditions, phase, host, owner, tags, cause or reason, or " +
    "in why its status may be out of date. In one field: tag:sweep3, owner:ana, cause:oom. A key of the configuration or " +
    "a metric: optimizer:adam, lr>1e-4, loss<2, gpus>=8. Of names: *-seed1, /seed[12]$/. -word: without.";

  /** How people begin, of a fleet without runs. */
  function beginning(root) {
    return [el("h2", {}, "No runs yet."),
      el("p", {}, "A run is a folder below ", el("code", {}, root), " into which training writes heartbeats. In ",
        "Python two lines begin one:"),
      el("pre", { tabindex: "0" }, el("code", {}, "import lastbeat\nrun = lastbeat.start(\"my-run\")")),
      el("p", {}, "Any other program runs under ", el("code", {}, "lastbeat exec"), ". A shell script can write ",
        "the file ", el("code", {}, "my-run/metadata.json"), " by itself, every minute or so:"),
      el("pre", { tabindex: "0" }, el("code", {},
        "{\"run_id\": \"my-run\", \"status\": \"running\", \"phase\": \"train\"}")),
      el("p", {}, "Then ", el("code", {}, "lastbeat sweep"), " watches all of them and tells people. New runs appear ",
        "here by themselves.")];
  }

  /** In place of the table. `kind`: what there is instead of rows, as Around.kind tells; `clear` shows all runs. */
  function instead(kind, root, clear) {
    switch (kind) {
      case "unseen":
        return [el("h2", {}, "Nothing of this fleet has been seen yet."),
          el("p", {}, "It appears here as soon as the store answers.")];
      case "waiting":
        return el("p", { class: "muted" }, "Reading the fleet …");
      case "begin":
        return beginning(root);
      case "old":
        return [el("h2", {}, "No run is alive, and none ended lately."),
          el("p", {}, "See below for older ones.")];
      case "nothing":
        return [el("h2", {}, "No run matches."),
          el("p", {}, SEARCHED),
          el("button", { type: "button", class: "quiet", on: { click: clear } }, "Show all runs")];
      default:
        return null;
    }
  }

  /** What there is instead of rows; empty where there are rows. `shown`: how many match. */
  function kind(shown) {
    const { fleet } = Data;
    if (fleet === null) return Data.state.mode === "loading" ? "waiting" : "unseen";
    if (Data.rows.length > 0) return shown > 0 ? "" : "nothing";
    if (fleet.fault) return "unseen";
    return fleet.at === null || fleet.unread > 0 ? "waiting" : fleet.older > 0 ? "old" : "begin";
  }

  /** Sentences below the table: what is not in it, and how to see that. */
  function notes(fleet) {
    const told = [];
    if (fleet.silenced > 0) {
      told.push(`${Format.count(fleet.silenced, "run")} ${fleet.silenced === 1 ? "is" : "are"} silenced: ` +
        "they send no alerts.");
    }
    if (fleet.older > 0) {
      told.push(`${Format.count(fleet.older, "older run")}, over or silent for longer than this page looks back, ` +
        `${fleet.older === 1 ? "is" : "are"} not shown. \`lastbeat fleet --since 30d\` lists them.`);
    }
    if (fleet.ignored?.length) {
      const names = fleet.ignored.slice(0, 5).map((name) => Format.clip(name, 80)).join(", ");
      const more = fleet.ignored.length > 5 ? ` and ${fleet.ignored.length - 5} more` : "";
      told.push(`Not shown, because no run may have such a name: ${names}${more}.`);
    }
    for (const note of (fleet.notes ?? []).slice(0, 10)) told.push(Format.clip(note, 400));
    return told;
  }

  return Object.freeze({ SEARCHED, instead, kind, notes });
})();

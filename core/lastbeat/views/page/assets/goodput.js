"use strict";
/* Goodput: what the wall time of a run went into, as one bar and a legend that says it in words. */
const Goodput = (() => {
  const { el } = Draw;
  const { facts, some } = Account;
  /* Less than this of the wall time that is not known changes no figure that people read. */
  const SURE = 0.005;
  const USES = [
    ["productive", "Steps that count"],
    ["lost", "Steps done again, or cut off"],
    ["queued", "Waiting in the queue"],
    ["starting", "Start-up, before the first step"],
    ["unnoticed", "Dead, and unnoticed"],
    ["restarting", "Dead, until the next attempt"],
    ["unknown", "Not known"],
  ];

  const percent = (share) => `${(share * 100).toFixed(1)} %`;

  function ratio(told) {
    const least = Format.value(told.ettr);
    const most = Format.value(told.ettr_most);
    if (least === null || most === null) return "not known: no step of it is";
    if (most - least < SURE) return percent(least);
    return `${percent(least)} at least, ${percent(most)} at most`;
  }

  /** The parts that are to be told: a use of which nothing is known too, but no time that is not known where none is. */
  function parts(told) {
    return USES.map(([use, words]) => ({ use, words, seconds: Format.value((told.spent_s ?? {})[use] ?? null) })).filter(
      (each) => each.use !== "unknown" || each.seconds > 0);
  }

  function legend(each, told) {
    const known = each.seconds !== null, lost = each.use === "lost" && told.lost_steps > 0;
    return el("li", { "data-key": each.use },
      el("span", { class: `use use-${each.use}`, "aria-hidden": "true" }),
      el("span", {}, each.words, lost && `: ${Format.count(told.lost_steps, "step")}`),
      el("span", { class: "share" }, known ? percent(each.seconds / told.wall_s) : "not known"),
      el("span", { class: "muted" }, known && Format.duration(each.seconds)));
  }

  /** The nodes of the section; null where nothing is known of how a run spent its time. */
  function build(doc, now) {
    const told = doc.goodput;
    if (!told || !(told.wall_s > 0) || (!some(told.ettr) && !doc.job)) return null;
    const shown = parts(told), spent = shown.filter((each) => each.seconds > 0);
    const words = spent.map((each) => `${each.words}: ${percent(each.seconds / told.wall_s)}`).join("; ");
    const first = told.first_attempt > 1 ? ` from number ${told.first_attempt} on` : "";
    const mean = (seconds) => some(seconds) && Format.duration(seconds);
    return [
      el("div", { class: "goodput", role: "img", "aria-label": words }, spent.map((each) =>
        el("div", { "data-key": each.use, class: `use-${each.use}`, title: `${each.words}: ${Format.duration(each.seconds)}`,
          style: { width: `${((each.seconds / told.wall_s) * 100).toFixed(3)}%` } }))),
      el("ul", { class: "plain uses" }, shown.map((each) => legend(each, told))),
      facts([
        ["Effective training time ratio", ratio(told)],
        ["Wall time", [Format.duration(told.wall_s),
          el("span", { class: "muted" }, ` since ${Format.time(told.since, now)}, attempts: ${told.attempts}${first}`)]],
        ["Failures", told.failures > 0 && Format.count(told.failures, "failure")],
        ["Mean time to detect", mean(told.mean_time_to_detect_s)],
        ["Mean time to recover", mean(told.mean_time_to_recover_s)],
      ]),
    ];
  }

  return Object.freeze({ build });
})();

"use strict";
/* Ranks: a heat strip with a cell for each rank, walked with the arrow keys, and the worst of them in words.
 *
 * A cell's colour tells how many steps the rank is behind; one that is silent, gone or broken has a sign and a pattern
 * besides. Ranks are compared with the moment the run is seen, or, once it has ended, with the last beat of any rank.
 */
const Ranks = (() => {
  const { el, muted } = Draw;
  const MOST_CELLS = 512;
  const MOST_WORST = 5;
  const SILENT_S = 600;
  const FAR_BEHIND = 10;
  const FEW = 128;
  const LEVELS = [
    { most: 0, name: "level-0", words: "with the foremost" },
    { most: 9, name: "level-1", words: "1 to 9 steps behind" },
    { most: 99, name: "level-2", words: "10 to 99 behind" },
    { most: Infinity, name: "level-3", words: "100 and more behind" },
  ];
  const STATES = { failed: { sign: "✖", words: "failed" }, silent: { sign: "◷", words: "silent" },
    unreadable: { sign: "?", words: "cannot be read" }, untold: { sign: "·", words: "never reported" } };

  /** For so long a rank that lives may tell nothing, in seconds. */
  const limitOf = (doc) => (typeof doc.stale_s === "number" ? doc.stale_s : SILENT_S);

  /** Every rank with what is to be shown of it, by number; those of the world that never beat are among them. */
  function judged(doc) {
    const lines = doc.ranks ?? [];
    const beats = lines.map((line) => Format.moment(line.modified)).filter((at) => at !== null);
    const ended = doc.run.status !== "RUNNING" && beats.length > 0;
    const reference = ended ? beats.reduce((one, other) => Math.max(one, other)) : Format.moment(doc.at);
    const limit = limitOf(doc);
    const told = lines.map((line) => {
      const age = Format.ageSeconds(line.modified, reference);
      const ago = Format.ageSeconds(line.modified, Format.moment(doc.at));
      const failed = /^(?:failed|error)/i.test(line.status ?? "");
      const done = /^(?:complete|succeeded|finished|done|cancel|preempt)/i.test(line.status ?? "");
      const state = line.fault ? "unreadable" : failed ? "failed" : age !== null && age > limit && !done
            ? "silent" : null;
      return { ...line, age, ago, state, ended };
    });
    const world = doc.world_size;
    if (typeof world === "number" && !doc.ranks_left_out && world <= MOST_CELLS) {
      const known = new Set(told.map((line) => line.rank));
      for (let rank = 0; rank < world; rank += 1) {
        if (!known.has(rank)) told.push({ rank, age: null, behind: null, state: "untold" });
      }
    }
    return told.sort((one, other) => one.rank - other.rank);
  }

  const levelOf = (line) => LEVELS.find((level) => (line.behind ?? 0) <= level.most);

  /** All about one rank, in a line of words. */
  function words(line) {
    const { rank, host, state, loss, phase, status } = line, parts = [`Rank ${rank}`, host && Format.clip(host, 80)];
    if (state === "untold") parts.push("has never reported");
    else {
      parts.push(state === "failed" && "failed",
        state === "unreadable" && `cannot be read: ${Format.clip(String(line.fault), 200)}`,
        line.age !== null && (state !== "silent" ? `last beat ${Format.duration(line.ago)} ago`
          : `silent for ${Format.duration(line.age)}${line.ended ? " when the last of all beat" : ""}`),
        typeof line.step === "number" && `step ${Format.integer(line.step)}`,
        typeof line.behind === "number" && (line.behind > 0 ? `${Format.count(line.behind, "step")} behind` : "not behind"),
        (loss ?? null) !== null && `loss ${Format.number(loss)}`, phase && `phase ${Format.clip(phase, 80)}`,
        status && state !== "failed" && Format.clip(status, 40));
    }
    return parts.filter(Boolean).join(", ");
  }

  function worst(lines) {
    const badness = (line) =>
      (line.state === null ? 0 : line.state === "failed" ? 4e9 : line.state === "untold" ? 1e9 : 2e9) +
      (line.age ?? 0) * (line.state ? 1e3 : 0) +
      (line.behind ?? 0);
    return lines.filter((line) => line.state !== null || line.behind >= FAR_BEHIND)
      .sort((one, other) => badness(other) - badness(one));
  }

  function cell(line, focused, few) {
    const { rank, state } = line, told = words(line);
    return el("div", { class: `cell ${state === null ? levelOf(line).name : `is-${state}`}`, role: "option", id: `rank-${rank}`,
      "data-key": rank, "data-rank": rank, tabindex: focused ? "0" : "-1", "aria-selected": String(focused),
      "aria-label": told, title: told },
    state === null ? rank : [el("span", { class: "cell-sign" }, STATES[state].sign), few && rank]);
  }

  function legend(lines, limit) {
    const key = (name, sign, text) => [el("span", { class: `cell key ${name}` }, sign), text];
    return el("div", { "aria-hidden": "true" }, Draw.list([
      ...LEVELS.filter((level) => lines.some((line) => line.state === null && levelOf(line) === level))
        .map(({ name, words: text }) => key(name, null, text)),
      ...Object.entries(STATES).filter(([name]) => lines.some((line) => line.state === name)).map(([name, state]) =>
        key(`is-${name}`, state.sign, name === "silent" ? `silent for over ${Format.duration(limit)}` : state.words)),
    ], "legend"));
  }

  /** The nodes of the section for the document; `chosen` is the rank that is looked at. Null where there are none. */
  function build(doc, chosen) {
    const lines = judged(doc);
    if (lines.length === 0) return null;
    const shown = lines.slice(0, MOST_CELLS);
    const bad = worst(lines);
    const focused =
      shown.find((line) => line.rank === chosen) ?? shown.find((line) => line.rank === bad[0]?.rank) ?? shown[0];
    const left = (doc.ranks_left_out ?? 0) + lines.length - shown.length;
    const counted = Object.entries(STATES)
      .map(([name, state]) => [lines.filter((line) => line.state === name).length, state.words])
      .filter(([many]) => many > 0).map(([many, what]) => `${many} ${what}`);
    const behind = lines.filter((line) => line.behind > 0).length;
    if (behind > 0) counted.push(`${behind} behind`);
    const world = typeof doc.world_size === "number" ? Format.count(doc.world_size, "rank")
      : `${Format.count(lines.length, "rank")} known`;
    const sign = (line) => el("span", { class: "sign", "aria-hidden": "true" }, line.state === null ? "▲" : STATES[line.state].sign);
    const few = shown.length <= FEW;
    return [
      el("p", {}, el("strong", {}, `${world}: `), counted.length > 0 ? `${counted.join(", ")}.` : "none silent, none behind.",
        left > 0 && ` ${Format.integer(left)} more are not shown here.`),
      bad.length > 0 && Draw.list(bad.slice(0, MOST_WORST).map((line) => [sign(line), " ", words(line)]), "worst", "ol"),
      bad.length > MOST_WORST && muted(`and ${bad.length - MOST_WORST} more like these.`),
      el("div", { class: few ? "ranks few" : "ranks", role: "listbox", "data-ranks": true,
        "aria-label": "Ranks; arrow keys go from one to the next", "aria-orientation": "horizontal" },
      shown.map((line) => cell(line, line === focused, few))),
      el("p", { class: "rank-details" }, words(focused)),
      legend(lines, limitOf(doc)),
    ];
  }

  /** Where an arrow key leads from one cell to another; null where nowhere. Rows are what the width makes of them. */
  function neighbour(cellNow, key) {
    const cells = [...cellNow.parentNode.children];
    const at = cells.indexOf(cellNow);
    const row = cells.findIndex((each) => each.offsetTop !== cells[0].offsetTop);
    const across = row === -1 ? cells.length : row;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - across, ArrowDown: at + across, Home: 0,
      End: cells.length - 1 }[key];
    return to === undefined ? null : (cells[to] ?? cellNow);
  }

  return Object.freeze({ build, neighbour });
})();

"use strict";
/* Timeline: attempts, statuses and phases of a run as bands over one axis of time, and the same in words. */
const Timeline = (() => {
  const { el, muted } = Draw;
  const MOST_BANDS = 200;
  const TICKS_S = [
    60, 300, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 432000, 864000, 2592000, 7776000,
  ];

  /** Spans with an end each: that of the next one, or `end`. Those without a time are left out. */
  function closed(spans, end) {
    const known = spans.filter((span) => span.from !== null).sort((one, other) => one.from - other.from);
    return known.map((span, index) => ({
      ...span,
      to: Math.max(span.from, index + 1 < known.length ? known[index + 1].from : end),
    }));
  }

  /** What each lane shows. Where history was cut, nothing is said of the time before it. */
  function lanes(doc, end) {
    const history = doc.history ?? [], bandOf = (at, status, name, more = "") => ({ from: Format.moment(at), status, name, more });
    const statuses = history.length > 0 ? history.map((each) => bandOf(each.at, each.after, each.after, each.reason))
      : (doc.run.strip ?? []).map(([since, status]) => bandOf(since, status, status));
    const attempts = (doc.attempts ?? []).map(([since, status, number]) =>
      bandOf(since, status, `Attempt ${number}`, `latest ${status}`));
    const first = attempts[0]?.from ?? null, before = history[0]?.before;
    if (before && first !== null && first < Format.moment(history[0].at)) {
      statuses.unshift({ from: first, status: before, name: before, more: "" });
    }
    const phases = (doc.phases ?? []).map(([since, phase]) => bandOf(since, null, String(phase)));
    return [["Attempts", attempts], ["Status", statuses], ["Phases", phases]].map(([name, spans]) => {
      const bands = closed(spans, end);
      return { name, left: Math.max(0, bands.length - MOST_BANDS), bands: bands.slice(-MOST_BANDS) };
    }).filter((lane) => lane.bands.length > 0);
  }

  /** The end of the axis: now, or when the run ended. */
  function endOf(doc) {
    const now = Format.moment(doc.at);
    const over = ["FAILED", "SUCCEEDED", "CANCELLED", "PREEMPTED"].includes(doc.run.status);
    const last = Format.moment(doc.run.since);
    return over && last !== null && now !== null ? Math.min(now, last) : now;
  }

  /** Round times on the axis, five or so, in the reader's own zone. */
  function ticks(from, to) {
    const step = (TICKS_S.find((each) => (to - from) / 1000 / each <= 6) ?? (to - from) / 5000) * 1000;
    const shift = new Date(to).getTimezoneOffset() * 60000;
    const found = [];
    for (let at = Math.ceil((from - shift) / step) * step + shift; at <= to && found.length < 8; at += step)
      found.push(at);
    return found;
  }

  /** Where its words have no room to its right: on a phone in the last quarter, anywhere in the last tenth. */
  const tickClass = (share) => (share > 0.9 ? "tick late end" : share > 0.75 ? "tick late" : "tick");

  function band(each, from, to, now) {
    const share = (at) => ((at - from) / Math.max(1, to - from)) * 100;
    const left = Math.max(0, share(each.from));
    const width = Math.max(0.4, share(each.to) - left);
    // How it ended has only just begun where the axis ends: it is wide enough to be read all the same.
    const last = each.status !== null && each.to >= to && width < 9;
    const looks = each.status === null ? null : Draw.looks(each.status);
    const lasted = Format.duration((each.to - each.from) / 1000);
    const more = each.more ? `. ${Format.clip(each.more, 300)}` : "";
    const words = `${each.name}: from ${Format.time(each.from / 1000, now)}, for ${lasted}${more}`;
    const place = last ? { right: 0 } : { left: `${Math.min(left, 99.6).toFixed(3)}%` };
    return el("div", { class: looks === null ? "band phase" : `band${last ? " last" : ""}`, "data-status": looks?.name, title: words,
      style: { ...place, width: `${Math.min(width, 100 - Math.min(left, 99.6)).toFixed(3)}%` } },
    (last || width > 2.5) && `${looks === null ? "" : `${looks.sign} `}${Format.clip(each.name, 60)}`);
  }

  /** The nodes of the section; null where nothing is known of the time of anything. */
  function build(doc) {
    const end = endOf(doc);
    if (end === null) return null;
    const shown = lanes(doc, end);
    if (shown.length === 0) return null;
    const now = Format.moment(doc.at);
    const from = Math.min(...shown.map((lane) => lane.bands[0].from));
    const to = Math.max(end, from + 1000);
    const place = (at) => ({ left: `${(((at - from) / (to - from)) * 100).toFixed(3)}%` });
    const lane = (name, bands, more = "") => el("div", { class: `lane ${more}` },
      el("span", { class: "lane-name" }, name), el("div", { class: "bands" }, bands));
    const named = (each) => (each.status === null ? each.name : each.name === each.status ? Draw.status(each.status)
      : [`${each.name} (latest `, Draw.status(each.status), ")"]);
    const said = ({ bands }) => bands.map((each, index) => {
      const lasted = Format.duration((each.to - each.from) / 1000), ended = index + 1 < bands.length || end < now;
      return [el("span", { title: Format.full(each.from / 1000) }, Format.time(each.from / 1000, now)), ": ", named(each),
        ended ? ` for ${lasted}` : ` until now (${lasted})`,
        each.more && each.name === each.status && `. ${Format.clip(each.more, 500)}`];
    });
    return [
      el("div", { class: "timeline", "aria-hidden": "true" },
        shown.map(({ name, bands }) => lane(name, bands.map((each) => band(each, from, to, now)))),
        lane("", ticks(from, to).map((at) => el("span", { class: tickClass((at - from) / (to - from)), style: place(at) },
          Format.time(at / 1000, now))), "axis")),
      el("details", { class: "expand" }, el("summary", {}, "The timeline in words"), shown.map((each) => [
        el("h3", {}, each.name), each.left > 0 && muted(`${each.left} earlier ones are left out.`), Draw.list(said(each), "", "ol"),
      ])),
    ];
  }

  return Object.freeze({ build });
})();

"use strict";
/* Timeline: attempts, statuses and phases of a run as bands over one axis of time, and the same in words. */
const Timeline = (() => {
  const { el } = Draw;
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
    const history = doc.history ?? [];
    const statuses =
      history.length > 0
        ? history.map((each) => ({ from: Format.moment(each.at), status: each.after, name: each.after,
            more: each.reason }))
        : (doc.run.strip ?? []).map(([since, status]) => ({ from: Format.moment(since), status, name: status,
            more: "" }));
    const attempts = (doc.attempts ?? []).map(([since, status, number]) => ({ from: Format.moment(since), status,
      name: `Attempt ${number}`, more: `latest ${status}` }));
    const first = attempts[0]?.from ?? null;
    if (history[0]?.before && first !== null && first < Format.moment(history[0].at)) {
      statuses.unshift({ from: first, status: history[0].before, name: history[0].before, more: "" });
    }
    const phases = (doc.phases ?? []).map(([since, phase]) => ({ from: Format.moment(since), status: null,
      name: String(phase), more: "" }));
    return [
      { name: "Attempts", bands: closed(attempts, end) },
      { name: "Status", bands: closed(statuses, end) },
      { name: "Phases", bands: closed(phases, end) },
    ]
      .map((lane) => ({
        ...lane,
        left: Math.max(0, lane.bands.length - MOST_BANDS),
        bands: lane.bands.slice(-MOST_BANDS),
      }))
      .filter((lane) => lane.bands.length > 0);
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
    return el("div",
      {
        class: looks === null ? "band phase" : `band b-${looks.name}${last ? " last" : ""}`,
        title: words,
        style: {
          ...(last ? { right: 0 } : { left: `${Math.min(left, 99.6).toFixed(3)}%` }),
          width: `${Math.min(width, 100 - Math.min(left, 99.6)).toFixed(3)}%`,
        },
      },
      last || width > 2.5 ? `${looks === null ? "" : `${looks.sign} `}${Format.clip(each.name, 60)}` : null);
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
    return [
      el("div", { class: "timeline", "aria-hidden": "true" },
        shown.map((lane) =>
          el("div", { class: "lane" },
            el("span", { class: "lane-name" }, lane.name),
            el("div", { class: "bands" }, lane.bands.map((each) => band(each, from, to, now))))),
        el("div", { class: "lane axis" },
          el("span", { class: "lane-name" }, ""),
          el("div", { class: "bands" },
            ticks(from, to).map((at) =>
              el("span", { class: tickClass((at - from) / (to - from)), style: place(at) },
                Format.time(at / 1000, now)))))),
      el("details", { class: "expand" },
        el("summary", {}, "The timeline in words"),
        shown.map((lane) => [
          el("h3", {}, lane.name),
          lane.left > 0 ? el("p", { class: "muted" }, `${lane.left} earlier ones are left out.`) : null,
          el("ol", { class: "plain" },
            lane.bands.map((each, index) =>
              el("li", {},
                el("span", { title: Format.full(each.from / 1000) }, Format.time(each.from / 1000, now)), ": ",
                each.status === null ? each.name : each.name === each.status
                    ? Draw.status(each.status) : [`${each.name} (latest `, Draw.status(each.status), ")"],
                index + 1 < lane.bands.length || end < now
                  ? ` for ${Format.duration((each.to - each.from) / 1000)}`
                  : ` until now (${Format.duration((each.to - each.from) / 1000)})`,
                each.more && each.name === each.status ? `. ${Format.clip(each.more, 500)}` : null))),
        ])),
    ];
  }

  return Object.freeze({ build });
})();

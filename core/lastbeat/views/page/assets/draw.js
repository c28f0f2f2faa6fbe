"use strict";
/* Draw: builds elements. Text goes in as text alone, so nothing that a run wrote can become markup.
 *
 *   Draw.el("p", { class: "reason", title: full, on: { click: open } }, "Both ", Draw.el("code", {}, name))
 *
 * Attributes that are null, undefined or false are left out; true is written as an empty attribute. `on` takes
 * listeners, `style` an object of CSS properties (set through CSSOM, which the Content-Security-Policy allows; custom
 * properties too), `data` what goes into the dataset. Children are elements, text, numbers, arrays of them, or null.
 * Draw.svg is the same for SVG.
 */
const Draw = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const STRIP_MS = 86400000;
  const MOST_SPANS = 100;
  const ATTRIBUTE = /^(?:[a-z][a-z-]*|viewBox|preserveAspectRatio|x1|x2|y1|y2)$/;

  /** How each status is shown: its sign, and its name in `data-status`, by which it has its colour. */
  const STATUSES = Object.freeze({
    "FAILED": { sign: "✖", name: "failed" },
    "TIMED_OUT": { sign: "◷", name: "timed-out" },
    "RUNNING (WARNING)": { sign: "▲", name: "warning" },
    "UNKNOWN": { sign: "?", name: "unknown" },
    "RUNNING": { sign: "●", name: "running" },
    "NO_HEARTBEAT": { sign: "?", name: "unknown" },
    "SUCCEEDED": { sign: "✔", name: "succeeded" },
    "CANCELLED": { sign: "■", name: "cancelled" },
    "PREEMPTED": { sign: "⏏", name: "preempted" },
  });

  const looks = (status) => (Object.hasOwn(STATUSES, status) ? STATUSES[status] : STATUSES.UNKNOWN);

  /** How a run is shown, given its row: one that is recorded as running does not look calm while it stands still, or
   * seems not to run. */
  function looksOf(row) {
    return (row.doubt || row.stands_still) && row.shown === "RUNNING" ? STATUSES["RUNNING (WARNING)"] : looks(row.shown);
  }

  function fill(node, attributes, children) {
    for (const [name, given] of Object.entries(attributes || {})) {
      if (given === null || given === undefined || given === false) continue;
      if (name === "on") {
        for (const [event, listener] of Object.entries(given)) node.addEventListener(event, listener);
      } else if (name === "style") {
        for (const [property, text] of Object.entries(given)) node.style.setProperty(property, String(text));
      } else if (name === "data") {
        for (const [key, text] of Object.entries(given)) node.dataset[key] = String(text);
      } else if (ATTRIBUTE.test(name) && !name.startsWith("on") && name !== "srcdoc") {
        node.setAttribute(name, given === true ? "" : String(given));
      } else {
        throw new TypeError(`no such attribute: ${name}`);
      }
    }
    append(node, children);
    return node;
  }

  function append(node, children) {
    for (const child of children) {
      if (child === null || child === undefined || child === false) continue;
      if (Array.isArray(child)) append(node, child);
      else node.append(child instanceof Node ? child : String(child));
    }
  }

  const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  /** Changes a text only where it differs, so that a selection in it stands. */
  function setText(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }

  /** Puts children in place of what `node` holds. */
  function put(node, ...children) {
    node.replaceChildren();
    append(node, children);
    return node;
  }

  const button = (words, press, attributes = {}) =>
    el("button", { type: "button", class: "quiet", on: press && { click: press }, ...attributes }, words);

  /** A paragraph of less weight. */
  const muted = (...words) => el("p", { class: "muted" }, words);

  /** A list without marks: an entry for each part. */
  const list = (parts, name = "", tag = "ul") => el(tag, { class: `plain ${name}` }, parts.map((part) => el("li", {}, part)));

  /** Words behind a sign, in the colour of a status. */
  const signed = (tag, name, sign, ...words) => el(tag, { class: "toned", "data-status": name },
    el("span", { "aria-hidden": "true" }, `${sign} `), words);

  /** A moment as its age, with the time in its title. */
  const ago = (given, now) => el("span", { title: Format.full(given) }, Format.ago(given, now));

  /** The time of a moment, to the second, with all of it in its title. */
  const time = (given, now) => el("span", { title: Format.full(given) }, Format.time(given, now, true));

  /** A status as everywhere: sign, word, colour. */
  function status(shown, { sign, name } = looks(shown), doubt = null) {
    // Where there is little room the style leaves out what stands round WARNING.
    const rest = (text) => el("span", { class: "rest" }, text);
    const word = shown === "RUNNING (WARNING)" ? [rest("RUNNING ("), "WARNING", rest(")")] : shown;
    return el("span", { class: "status", "data-status": name, title: doubt }, el("span", { class: "sign", "aria-hidden": "true" },
      sign), " ", el("span", { class: "word" }, word, doubt ? "?" : null));
  }

  /** The status of a run, given its row: with a question mark where that is in doubt. */
  const statusOf = (row) => status(row.shown, looksOf(row), row.doubt);

  /** A link to somewhere else, if it is https; else its text alone. */
  function outside(address, text) {
    let safe = false;
    try {
      safe = new URL(address).protocol === "https:";
    } catch {
      safe = false;
    }
    return safe ? el("a", { href: address, rel: "noopener noreferrer", target: "_blank" }, text) : el("span", {}, text);
  }

  /** A link to a run's own view. Its name is never cut: runs of one sweep differ anywhere. */
  const runLink = (id) => el("a", { href: `#/runs/${encodeURIComponent(id)}`, class: "run-link" }, id);

  /** A path: too long a one without its middle, and whole in its title. */
  const path = (text, most = 60) => el("code", { class: "path", title: text.length > most ? text : null },
    Format.middle(text, most));

  /** The latest values as a line, within what is usual of them; gaps where there was no number. `name` says of what. */
  function sparkline(given, name, width = 64, height = 18) {
    const values = given.map(Format.value);
    const known = values.filter((one) => one !== null && Number.isFinite(one));
    const picture = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, role: "img" });
    if (known.length === 0) {
      picture.setAttribute("aria-hidden", "true");
      return picture;
    }
    const low = Math.min(...known), high = Math.max(...known), [least, most] = Format.usual(known, true);
    const x = (index) => 2 + (index * (width - 4)) / Math.max(1, values.length - 1);
    // Halves, for the difference of the largest numbers is none any more.
    const range = most / 2 - least / 2, within = (one) => Math.min(most, Math.max(least, one));
    const y = (one) => (range > 0 ? 2 + ((most / 2 - within(one) / 2) / range) * (height - 4) : height / 2);
    let path = "", pen = false, last = null;
    values.forEach((one, index) => {
      if (one === null || !Number.isFinite(one)) {
        pen = false;
        return;
      }
      const place = `${x(index).toFixed(1)} ${y(one).toFixed(1)}`;
      // A point between two gaps gets a line of no length, which its round caps make a dot.
      path += pen ? `L${place}` : `M${place}L${place}`;
      pen = true;
      last = index;
    });
    const words = `${name} from ${Format.number(known[0])} to ${Format.number(known[known.length - 1])}, ` +
      `between ${Format.number(low)} and ${Format.number(high)}`;
    picture.setAttribute("aria-label", words);
    append(picture, [svg("title", {}, words), svg("path", { d: path, fill: "none" }),
      svg("circle", { cx: x(last).toFixed(1), cy: y(values[last]).toFixed(1), r: 1.8 })]);
    return picture;
  }

  /** Spans ([[iso, status, attempt], …], oldest first) as a sentence: RUNNING for 3 h, TIMED_OUT 10:02 for 20 m, …
   * What was before `watched` (milliseconds), no watcher saw. */
  function stripWords(spans, at, watched) {
    if (spans.length === 0) return "nothing known of the last 24 h";
    const told = spans.slice(-12).map(([since, name, attempt], index, all) => {
      const ends = index + 1 < all.length ? Format.moment(all[index + 1][0]) : at;
      const lasted = Format.age(since, ends);
      const another = index > 0 && attempt !== all[index - 1][2] ? ` (attempt ${attempt})` : "";
      return index + 1 < all.length ? `${name} ${Format.time(since, at)} for ${lasted}${another}`
        : `${name} since ${Format.time(since, at)} (${lasted})${another}`;
    });
    const unseen = watched === null ? "" : watched >= at ? "; not watched" : `; not watched before ${Format.time(watched / 1000, at)}`;
    return `${spans.length > 12 ? "… " : ""}${told.join(", ")}${unseen}`;
  }

  /** The last 24 hours before `at` (milliseconds) as a strip; troubles are taller, so that not only colour tells. What
   * was before `watched`, where that is given, is hatched. */
  function strip(spans, at, watched = null, width = 96, height = 14) {
    const words = stripWords(spans, at, watched);
    const picture = svg("svg", { class: "strip", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none",
      role: "img", "aria-label": words }, svg("title", {}, words),
    svg("rect", { class: "ground", x: 0, y: height - 1, width, height: 1 }));
    const share = { FAILED: 1, TIMED_OUT: 0.8, RUNNING: 0.5, SUCCEEDED: 0.35, CANCELLED: 0.35, PREEMPTED: 0.35, UNKNOWN: 0.2 };
    const x = (moment) => Math.min(width, Math.max(0, width - ((at - moment) * width) / STRIP_MS));
    const shown = spans.slice(-MOST_SPANS);
    shown.forEach(([since, name, attempt], index) => {
      const begins = x(Format.moment(since) ?? at);
      const ends = index + 1 < shown.length ? x(Format.moment(shown[index + 1][0]) ?? at) : width;
      // What took a minute among 24 hours is still to be seen.
      const wide = Math.max(1.5, ends - begins), tall = height * (share[name] ?? 0.2);
      picture.append(svg("rect", { "data-status": looks(name).name, x: Math.min(begins, width - wide).toFixed(1),
        y: (height - tall).toFixed(1), width: wide.toFixed(1), height: tall.toFixed(1) }));
      if (index > 0 && attempt !== shown[index - 1][2]) {
        picture.append(svg("rect", { class: "attempt", x: begins.toFixed(1), y: 0, width: 1, height }));
      }
    });
    if (watched !== null && shown.length > 0) {
      const until = x(watched);
      for (let left = x(Format.moment(shown[0][0]) ?? at) + 1; left < until; left += 3) {
        const wide = Math.min(1.5, until - left);
        picture.append(svg("rect", { class: "unwatched", x: left.toFixed(1), y: 0, width: wide.toFixed(1), height }));
      }
    }
    return picture;
  }

  return Object.freeze({ STATUSES, looks, looksOf, el, put, setText, button, muted, list, signed, ago, time, status, statusOf, outside, runLink,
    path, sparkline, strip });
})();

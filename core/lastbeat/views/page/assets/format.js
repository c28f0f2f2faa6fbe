"use strict";
/* Format: numbers, durations, ages and times as people read them.
 *
 * What is not known is shown as Format.MISSING, never as zero. Numbers may come as the text "NaN", "Infinity" or
 * "-Infinity", for JSON has no such numbers. Times come as ISO 8601; they are shown in the reader's own zone, and
 * Format.full says them in UTC too, as logs and alerts have them.
 */
const Format = (() => {
  const MISSING = "–";
  const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

  /** A number from a document: a number, NaN or an infinity; null where none is known. */
  function value(given) {
    if (typeof given === "number") return given;
    if (given === "NaN") return NaN;
    if (given === "Infinity") return Infinity;
    if (given === "-Infinity") return -Infinity;
    return null;
  }

  /** What writes a number with `write`, which is asked for finite ones alone. */
  const finite = (write) => (given) => {
    const known = value(given);
    return known !== null && Number.isFinite(known) ? write(known) : MISSING;
  };

  /** Steps of a run, given its row: one that SUCCEEDED at the last step of a loop which counts from 0 did all. */
  function stepsDone(row) {
    return row.status === "SUCCEEDED" && row.step === row.total_steps - 1 ? row.total_steps : row.step;
  }

  /** A measured number with so many significant digits: 2.314, 0.000123, 1.2e-7, 12,345. */
  function number(given, digits = 4) {
    const known = value(given);
    if (known === null) return MISSING;
    if (Number.isNaN(known)) return "NaN";
    if (!Number.isFinite(known)) return known > 0 ? "∞" : "-∞";
    const size = Math.abs(known);
    if (size === 0) return "0";
    if (size >= 1e9 || size < 1e-4) {
      const [mantissa, exponent] = known.toExponential(Math.max(0, digits - 2)).split("e");
      return `${mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa}e${Number(exponent)}`;
    }
    const rounded = size >= 10 ** (digits - 1) ? Math.round(known) : Number(known.toPrecision(digits));
    return Math.abs(rounded) >= 1000 ? grouped.format(rounded) : String(rounded);
  }

  /** A count: 12,345. */
  function integer(given) {
    const known = value(given);
    return known === null ? MISSING : Number.isFinite(known) ? grouped.format(known) : number(known);
  }

  /** A large number in little space: 950, 12.3k, 1.2M. */
  function compact(given) {
    const known = value(given);
    const [unit, letter] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([each]) =>
      Number.isFinite(known) && Math.abs(known) >= each * 0.9995) ?? [1, ""];
    return `${number(unit > 1 ? known / unit : known, 3)}${letter}`;
  }

  /** A part of a whole, from 0 to 1: 24 %. It says 100 % only of what is whole. */
  const percent = finite((part) => `${part >= 1 ? Math.round(part * 100) : Math.min(99, Math.floor(part * 100 + 1e-9))} %`);

  /** Bytes in binary units: 812 B, 1.5 GiB. */
  const bytes = finite((given) => {
    let size = given;
    for (const unit of ["B", "KiB", "MiB", "GiB"]) {
      if (Math.abs(size) < 1024) return `${number(size, unit === "B" ? 4 : 3)} ${unit}`;
      size /= 1024;
    }
    return `${number(size, 3)} TiB`;
  });

  /** Seconds as people say them, two units at most: 45 s, 12 m, 3 h 2 m, 2 d 4 h. */
  const duration = finite((known) => {
    const seconds = Math.max(0, Math.round(known));
    if (seconds < 60) return `${seconds} s`;
    const minutes = Math.floor(seconds / 60);
    if (minutes < 60) return minutes < 10 && seconds % 60 ? `${minutes} m ${seconds % 60} s` : `${minutes} m`;
    const hours = Math.floor(minutes / 60);
    if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} m` : `${hours} h`;
    const days = Math.floor(hours / 24);
    return days < 10 && hours % 24 ? `${days} d ${hours % 24} h` : `${grouped.format(days)} d`;
  });

  /** Milliseconds since 1970 of an ISO 8601 time or of unix seconds; null where there is none. */
  function moment(given) {
    if (typeof given === "number") return given * 1000;
    const parsed = given ? Date.parse(given) : NaN;
    return Number.isNaN(parsed) ? null : parsed;
  }

  /** How many seconds `given` lies before `now` (milliseconds, Data.now() as a rule); null where it is not known. */
  function ageSeconds(given, now) {
    const then = moment(given);
    return then === null || now === null || now === undefined ? null : Math.max(0, (now - then) / 1000);
  }

  /** How long ago: 12 s, 3 h 2 m; without the word. */
  function age(given, now) {
    return duration(ageSeconds(given, now));
  }

  /** How long ago, as a phrase: just now, 12 s ago. */
  function ago(given, now) {
    const seconds = ageSeconds(given, now);
    if (seconds === null) return MISSING;
    return seconds < 2 ? "just now" : `${duration(seconds)} ago`;
  }

  const two = (part) => String(part).padStart(2, "0");

  /** The time of day in the reader's zone: 10:02, or 10:02:07. */
  function clock(given, seconds = false) {
    const then = moment(given);
    if (then === null) return MISSING;
    const date = new Date(then);
    return `${two(date.getHours())}:${two(date.getMinutes())}${seconds ? `:${two(date.getSeconds())}` : ""}`;
  }

  /** A time without what is plain: 10:02 on the day of `now`, else 20 Nov 10:02, with the year where it is another. */
  function time(given, now = Date.now(), seconds = false) {
    const then = moment(given);
    if (then === null) return MISSING;
    const date = new Date(then), today = new Date(now);
    if (date.toDateString() === today.toDateString()) return clock(given, seconds);
    const year = date.getFullYear() === today.getFullYear() ? "" : ` ${date.getFullYear()}`;
    return `${date.getDate()} ${MONTHS[date.getMonth()]}${year} ${clock(given, seconds)}`;
  }

  /** A time in full, in the reader's zone and in UTC: for titles. */
  function full(given) {
    const then = moment(given);
    if (then === null) return "not known";
    const date = new Date(then);
    const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
    const utc = `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
    return date.getTimezoneOffset() === 0 ? utc : `${day} ${clock(given, true)} here, ${utc}`;
  }

  /** Steps a second; seconds a step where that reads better. */
  const stepRate = finite((known) => {
    const slow = known > 0 && (1 / known < 60 ? `${number(1 / known, 2)} s` : duration(1 / known));
    return known < 0 ? MISSING : known === 0 || known >= 1 ? `${compact(known)} steps/s` : `${slow}/step`;
  });

  /** Throughput of a row: tokens a second where they are known, else steps. */
  function throughput(row) {
    const tokens = value(row.tokens_per_s);
    return tokens !== null ? `${compact(tokens)} tok/s` : stepRate(row.steps_per_s);
  }

  /** "1 run", "2 runs". */
  function count(many, one, more = `${one}s`) {
    return `${integer(many)} ${many === 1 ? one : more}`;
  }

  /** At most so many characters, an ellipsis for the rest. */
  function clip(text, most) {
    return text.length <= most ? text : `${text.slice(0, most - 1).trimEnd()}…`;
  }

  /** At most so many characters, an ellipsis for the middle: names and paths differ at their ends. */
  function middle(text, most) {
    const letters = Array.from(text);
    if (letters.length <= most) return text;
    const head = Math.floor((most - 1) * 0.4);
    return `${letters.slice(0, head).join("")}…${letters.slice(head + 1 - most).join("")}`;
  }

  /** CPU cores in use: 3.19, 0.05; what is next to none is said to be so. */
  const cores = finite((known) => (known < 0.01 ? "under 0.01" : String(Number(known.toFixed(known < 10 ? 2 : 1)))));

  /** Values that an axis shows all of. */
  const FEW = 20;

  /** What an axis of `values` spans, in their order: without outliers, and without the first 5 % if it `skips` them,
   * where there are many values. */
  function usual(values, skips) {
    const known = values.filter(Number.isFinite), later = known.slice(skips ? Math.ceil(known.length / 20) : 0);
    if (later.length < FEW) return known.length === 0 ? null : [Math.min(...known), Math.max(...known)];
    const sorted = later.sort((one, other) => one - other), most = sorted.length - 1;
    const [low, high] = [0.02, 0.98].map((share) => sorted[Math.round(share * most)]);
    return [Math.max(sorted[0], low - (high - low) / 2), Math.min(sorted[most], high + (high - low) / 2)];
  }

  return Object.freeze({ usual,
    MISSING, value, stepsDone, number, integer, compact, percent, bytes, duration, moment, ageSeconds, age, ago, clock, time,
    full, stepRate, throughput, count, clip, middle, cores,
  });
})();

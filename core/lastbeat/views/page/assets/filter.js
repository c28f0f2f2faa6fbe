"use strict";
/* Filter: which runs words choose. The language is that of views/filters.py, which describes it; one table of tests
 * holds both.
 *
 *   Filter.parse(words)       → { matches(row), keys: names whose values the server has to send, fault }
 *   Filter.value(row, key)    what a row says under a name: a text, a number, true or false; null: nothing
 *   Filter.sent(key)          whether each row has it, so that nobody has to ask for it
 */
const Filter = (() => {
  const WORDS_LIMIT = 20, REGEX_CHARS = 100, ID_CHARS = 128, COST_LIMIT = 16;
  /** Field of a filter → where it looks. The terminal has the same, in views/row_keys.py. */
  const TEXTS = { cause: (row) => [row.cause], condition: (row) => row.conditions, host: (row) => [row.host],
    owner: (row) => [row.owner], phase: (row) => [row.phase], run: (row) => [row.run_id],
    status: (row) => [row.shown], tag: (row) => row.tags ?? [], team: (row) => [row.team] };
  const NUMBERS = { attempt: (row) => row.attempt, done: (row) => percent(row), eta: (row) => row.eta_s,
    loss: (row) => Format.value(row.loss), speed: (row) => row.steps_per_s, step: (row) => row.step,
    tokens: (row) => row.tokens_per_s, total_steps: (row) => row.total_steps };
  const NUMBER = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?$/i, NAMED = /^([a-z_][\w./-]*)(>=|<=|[:=<>])(.+)$/i;
  const COMPARED = { ">": (one, other) => one > other, ">=": (one, other) => one >= other,
    "<": (one, other) => one < other, "<=": (one, other) => one <= other };
  const REFUSED = [
    [/\\[ac-ce-rt-vx-zAC-CE-RT-VX-Z0-9]|\(\?/, "has something that not all programs know; use . [] () | * + ? {n} ^ $ \\d"],
    [/\)[*+{]/, "repeats a group, which may take for ever; repeat single characters"],
    [/[*+?}]\+|\{,|\{\d{4}|\[\^?[[\]]|\[[^\]]*(?:--|&&|~~|\|\|)/, "has a repeat or a class that not all programs know"]];

  const has = (table, name) => Object.hasOwn(table, name.toLowerCase());

  function percent(row) {
    const step = Format.stepsDone(row), total = Format.value(row.total_steps);
    return step === null || !(total > 0) ? null : (100 * step) / total;
  }

  function value(row, key) {
    const name = key.toLowerCase();
    if (has(TEXTS, name)) return TEXTS[name](row).filter(Boolean).join(", ") || null;
    const found = has(NUMBERS, name) ? NUMBERS[name](row) : null;
    return found ?? (row.values && Object.hasOwn(row.values, key) ? row.values[key] : null);
  }

  function number(found) {
    if (typeof found === "number") return found;
    return typeof found !== "string" ? null : NUMBER.test(found) ? Number(found)
      : /^(?:NaN|-?Infinity)$/.test(found) ? Number(found) : null;
  }

  function glob(text) {
    const [first, ...rest] = text.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\?/g, ".").split(/\*+/);
    const last = rest.pop();
    // A part that was found keeps its place: to try all places of many parts would take for ever.
    const middle = rest.map((part, at) => `(?=(.*?${part}))\\${at + 1}`).join("");
    const whole = new RegExp(last === undefined ? `^${first}$` : `^${first}${middle}.*${last}$`, "s");
    return (found) => whole.test(found.toLowerCase());
  }

  const holds = (part) => (/[*?]/.test(part) ? glob(part) : (text) => text.toLowerCase().includes(part));

  /** A link may bring a regular expression, which must not hang the page: costly kinds are refused. Throws why. */
  function regex(source) {
    const shown = `/${source.slice(0, 40)}/`, bare = source.replace(/\\./g, "a").replace(/\[\^?[^\]]*\]/g, "a");
    if (source.length > REGEX_CHARS) throw new Error(`${shown} is longer than ${REGEX_CHARS} characters`);
    for (const [refused, why] of REFUSED) if (refused.test(source)) throw new Error(`${shown} ${why}`);
    const cost = 7 * (bare.match(/[*+{]/g)?.length ?? 0) + 2 * (bare.match(/[?|]/g)?.length ?? 0);
    if (cost > COST_LIMIT) throw new Error(`${shown} has more than two repeats, or too many choices; use several words`);
    let pattern;
    try {
      pattern = new RegExp(source, "i");
    } catch {
      throw new Error(`${shown} is no regular expression`);
    }
    return (row) => pattern.test(row.run_id.slice(0, ID_CHARS));
  }

  /** A key of the configuration or a metric; of a row that has none of that name, a word like others. */
  function said(name, part, word) {
    const matches = holds(part), wanted = NUMBER.test(part) ? Number(part) : null;
    return (row) => {
      const found = value(row, name), known = number(found);
      if (found === null) return Rows.text(row).includes(word);
      return known !== null && wanted !== null ? known === wanted : matches(String(found));
    };
  }

  function test(word, keys) {
    if (word.length > 2 && word.startsWith("/") && word.endsWith("/")) return regex(word.slice(1, -1));
    const text = word.toLowerCase(), [, name, sign, given] = NAMED.exec(word) ?? [], part = (given ?? "").toLowerCase();
    if (sign && Object.hasOwn(COMPARED, sign)) {
      if (!NUMBER.test(part)) {
        throw new Error(`${word.slice(0, 40)} compares with no number; write for example ${name}${sign}0.5`);
      }
      keys.add(name);
      return (row) => {
        const found = number(value(row, name));
        return found !== null && COMPARED[sign](found, Number(part));
      };
    }
    if (sign && has(TEXTS, name)) {
      const matches = holds(part);
      return (row) => TEXTS[name.toLowerCase()](row).some((each) => each && matches(each));
    }
    if (sign) {
      keys.add(name);
      return said(name, part, text);
    }
    if (!/[*?]/.test(word)) return (row) => Rows.text(row).includes(text);
    const matches = glob(text);
    return (row) => matches(row.run_id);
  }

  function parse(words) {
    const keys = new Set(), tests = [];
    let fault = null;
    for (const word of words.split(/\s+/).filter(Boolean).slice(0, WORDS_LIMIT)) {
      const unwanted = word.length > 1 && word.startsWith("-");
      try {
        const matches = test(unwanted ? word.slice(1) : word, keys);
        tests.push(unwanted ? (row) => !matches(row) : matches);
      } catch (error) {
        fault = error.message;
        tests.push(() => false);
      }
    }
    return { matches: (row) => tests.every((matches) => matches(row)), keys: [...keys].filter((key) => !sent(key)), fault };
  }

  const sent = (key) => has(TEXTS, key) || has(NUMBERS, key);

  return Object.freeze({ parse, value, number, sent });
})();

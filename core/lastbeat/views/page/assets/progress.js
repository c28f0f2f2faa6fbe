"use strict";
/* Progress: how far a run is, and what it uses of its machine. Each function builds the nodes of a section. */
const Progress = (() => {
  const { el, muted } = Draw;
  const { facts, some } = Account;
  const MOST_METRICS = 200;
  const MOST_GPUS = 64;

  /** A share of something as a bar; said in words beside it. */
  function meter(role, label, share, words, level = "") {
    const percent = Math.min(100, Math.max(0, share * 100));
    return el("div",
      { class: `meter ${level}`, role, "aria-label": label, "aria-valuemin": "0", "aria-valuemax": "100",
        "aria-valuenow": percent.toFixed(0), "aria-valuetext": words },
      el("div", { style: { width: `${percent.toFixed(2)}%` } }));
  }

  /** Metrics by name, in a box of their own where they are many. */
  function list(metrics) {
    const scrolls = metrics.length > 30 ? { tabindex: "0", role: "region", "aria-label": "Metrics" } : {};
    const one = ([name, value]) =>
      el("div", { "data-key": name },
        el("dt", {}, name), el("dd", {}, Format.value(value) === null ? "not known" : Format.number(value, 6)));
    return [
      el("div", { class: "metrics", ...scrolls }, el("dl", {}, metrics.slice(0, MOST_METRICS).map(one))),
      metrics.length > MOST_METRICS && muted(`and ${metrics.length - MOST_METRICS} more metrics.`),
    ];
  }

  function lossOf(loss) {
    const words = Format.number(loss);
    return Number.isFinite(loss) ? words : el("span", { class: "not-a-number" }, `✖ ${words}`);
  }

  /** How old the step is, from some minutes on. */
  function stepAge(run, now) {
    const age = Rows.stepAge(run, now);
    const words = age === null ? "" : ` · ${Format.duration(age)} ago`;
    return age === null ? null : el("span", { class: run.stands_still ? "late" : "muted", title: Format.full(run.step_at) }, words);
  }

  /** How far it is: step, time left, loss, and whatever else it tells. */
  function progress(doc, now) {
    const { run } = doc, metrics = Object.entries(doc.metrics ?? {}), quiet = (words) => el("span", { class: "muted" }, words);
    const [loss, left] = [run.loss, run.eta_s].map(Format.value), step = Format.stepsDone(run);
    const total = typeof run.total_steps === "number" && run.total_steps > 0 && typeof run.step === "number";
    const share = total ? step / run.total_steps : null;
    const of = total ? ` / ${Format.integer(run.total_steps)} · ${Format.percent(share)}` : " of an unknown total";
    const until = now === null || left === null ? "" : ` · until ${Format.time((now + left * 1000) / 1000, now)}`;
    if (!some(run.step) && loss === null && metrics.length === 0 && !some(doc.epoch)) {
      return [muted("This run reports no progress: there is no progress.json that could be read, and no step in its log.")];
    }
    return [
      total && meter("progressbar", "Progress", share, `step ${Format.integer(step)}${of}`, run.status === "RUNNING" ? "" : "ended"),
      facts([
        ["Step", some(run.step) && [Format.integer(step), quiet(of), stepAge(run, now)]],
        ["Time left", left !== null && [Format.duration(left), quiet(until)]],
        ["Loss", loss !== null && lossOf(loss)],
        ["Learning rate", Format.number(doc.learning_rate ?? null)],
        ["Epoch", Format.number(doc.epoch ?? null)],
        ["Throughput", [some(run.steps_per_s) && Format.stepRate(run.steps_per_s),
          some(run.tokens_per_s) && `${Format.compact(run.tokens_per_s)} tok/s`].filter(Boolean).join(" · ")],
      ], "facts large"),
      metrics.length > 0 && [el("h3", {}, "Metrics"), list(metrics)],
    ];
  }

  /** One figure of a machine: its name, and what there is to see of it. */
  const gauge = (key, name, ...parts) =>
    el("div", { class: "gauge", "data-key": key }, el("span", { class: "gauge-name" }, name),
      parts.filter(Boolean).map((part) => (typeof part === "string" ? el("span", {}, part) : part)));

  /** The figures of a node that are drawn, with what says their last value. */
  const NODE = [
    ["gpu", "GPUs busy", (value) => Format.percent(value)],
    ["gpu_memory", "GPU memory, the fullest", (value) => Format.percent(value)],
    ["gpu_temperature_c", "GPU temperature, the hottest", (value) => `${Format.number(value)} °C`],
    ["gpu_power_w", "GPU power, all", (value) => `${Format.number(value)} W`],
    ["cpu", "Processors busy", (value) => Format.percent(value)],
    ["memory", "Memory in use", (value) => Format.percent(value)],
    ["disk", "Disk of the checkpoints in use", (value) => Format.percent(value)],
  ];

  /** The last hours of the node of rank 0, a small curve for each figure. */
  function node(doc) {
    const told = doc.node;
    if (!told) return null;
    const gauges = NODE.map(([name, label, words]) => {
      const values = told.series[name] ?? [];
      const last = values.findLast((value) => typeof value === "number");
      return last !== undefined && gauge(name, label, words(last), Draw.sparkline(values, label, 200, 32));
    });
    const span = Format.duration(Math.max(...Object.values(told.series).map((column) => column.length)) * told.each_s);
    return [el("h3", {}, `The node, the last ${span}`), el("div", { class: "gauges" }, gauges)];
  }

  /** What training uses of its machine, as its metadata.json tells. */
  function resources(doc) {
    const used = doc.resources;
    if (!used) return node(doc);
    // A GPU that is full and busy does what it is for; a machine whose memory is full is about to kill something.
    const bar = (label, part, whole, words, warns = false) => Number.isFinite(part) && Number.isFinite(whole) && whole > 0 &&
      meter("meter", label, part / whole, words, warns && part / whole > 0.95 ? "high" : "");
    const of = (part, whole) => `${Format.bytes(part)} of ${some(whole) ? Format.bytes(whole) : "an unknown total"}`;
    const { memory_available_bytes: free, memory_total_bytes: all, rss_bytes: own } = used;
    const machine = some(free) && some(all) ? all - free : null;
    const [ofProcess, ofMachine] = ["Memory of the process", "Memory of the machine"];
    const ofGpu = (gpu, index) => {
      const name = `GPU ${index}`, { memory_used_bytes: full, memory_total_bytes: most } = gpu;
      const busy = typeof gpu.utilization === "number" ? `${Format.percent(gpu.utilization)} busy` : "how busy is not known";
      const memory = some(full) ? of(full, most) : "memory not known";
      return gauge(name, [name, gpu.name && el("span", { class: "muted" }, ` ${Format.clip(gpu.name, 80)}`)],
        gpu.lost ? el("span", { class: "high" }, "lost to the driver") : busy, bar(`${name} busy`, gpu.utilization, 1, busy),
        memory, bar(`${name} memory`, full, most, memory),
        [some(gpu.temperature_c) && `${Format.number(gpu.temperature_c)} °C`,
          some(gpu.power_w) && `${Format.number(gpu.power_w)} W`].filter(Boolean).join(", "),
        gpu.throttle?.length > 0 && `slowed down by ${[...new Set(gpu.throttle)].join(", ")}`);
    };
    return [el("div", { class: "gauges" },
      some(used.cpu) && gauge("CPU", "CPU", `${Format.cores(used.cpu)} cores in use by the process`),
      some(own) && gauge(ofProcess, ofProcess, of(own, all), bar(ofProcess, own, all, of(own, all))),
      machine !== null && gauge(ofMachine, ofMachine, `${of(machine, all)}, ${Format.bytes(free)} available`,
        bar(ofMachine, machine, all, of(machine, all), true)),
      (used.gpus ?? []).slice(0, MOST_GPUS).map(ofGpu)), node(doc)];
  }

  return Object.freeze({ progress, resources });
})();

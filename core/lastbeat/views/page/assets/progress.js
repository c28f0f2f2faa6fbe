"use strict";
/* Progress: how far a run is, and what it uses of its machine. Each function builds the nodes of a section. */
const Progress = (() => {
  const { el } = Draw;
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
      metrics.length > MOST_METRICS
        ? el("p", { class: "muted" }, `and ${metrics.length - MOST_METRICS} more metrics.`) : null,
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
    const run = doc.run;
    const metrics = Object.entries(doc.metrics ?? {});
    const loss = Format.value(run.loss);
    const total = typeof run.total_steps === "number" && run.total_steps > 0 && typeof run.step === "number";
    const step = Format.stepsDone(run);
    const share = total ? step / run.total_steps : null;
    const left = Format.value(run.eta_s);
    const of = total ? ` / ${Format.integer(run.total_steps)} · ${Format.percent(share)}` : " of an unknown total";
    const words = total ? `step ${Format.integer(step)}${of}` : "";
    const until = now === null || left === null ? "" : ` · until ${Format.time((now + left * 1000) / 1000, now)}`;
    if (!some(run.step) && loss === null && metrics.length === 0 && !some(doc.epoch)) {
      return [
        el("p", { class: "muted" },
          "This run reports no progress: there is no progress.json that could be read, and no step in its log."),
      ];
    }
    return [
      total ? [meter("progressbar", "Progress", share, words, run.status === "RUNNING" ? "" : "ended")] : null,
      facts(
        [
          ["Step", some(run.step) ? [Format.integer(step), el("span", { class: "muted" }, of), stepAge(run, now)] : null],
          ["Time left", left === null ? null : [Format.duration(left), el("span", { class: "muted" }, until)]],
          ["Loss", loss === null ? null : lossOf(loss)],
          ["Learning rate", Format.number(doc.learning_rate ?? null)],
          ["Epoch", Format.number(doc.epoch ?? null)],
          [
            "Throughput",
            some(run.tokens_per_s) || some(run.steps_per_s)
              ? [
                  some(run.steps_per_s) ? Format.stepRate(run.steps_per_s) : null,
                  some(run.steps_per_s) && some(run.tokens_per_s) ? " · " : null,
                  some(run.tokens_per_s) ? `${Format.compact(run.tokens_per_s)} tok/s` : null,
                ]
              : null,
          ],
        ],
        "facts large"),
      metrics.length > 0 ? [el("h3", {}, "Metrics"), list(metrics)] : null,
    ];
  }

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
      if (last === undefined) return null;
      return el("div", { class: "gauge", "data-key": name },
        el("span", { class: "gauge-name" }, label), el("span", {}, words(last)),
        Draw.sparkline(values, label, 200, 32));
    });
    const span = Format.duration(Math.max(...Object.values(told.series).map((column) => column.length)) * told.each_s);
    return [el("h3", {}, `The node, the last ${span}`), el("div", { class: "gauges" }, gauges)];
  }

  /** What training uses of its machine, as its metadata.json tells. */
  function resources(doc) {
    const used = doc.resources;
    if (!used) return node(doc);
    // A GPU that is full and busy does what it is for; a machine whose memory is full is about to kill something.
    const bar = (label, part, whole, words, warns = false) =>
      Number.isFinite(part) && Number.isFinite(whole) && whole > 0
        ? meter("meter", label, part / whole, words, warns && part / whole > 0.95 ? "high" : "") : null;
    const row = (label, words, gauge) =>
      el("div", { class: "gauge", "data-key": label },
        el("span", { class: "gauge-name" }, label), el("span", {}, words),
        gauge);
    const of = (part, whole) => `${Format.bytes(part)} of ${some(whole) ? Format.bytes(whole) : "an unknown total"}`;
    const free = used.memory_available_bytes;
    const all = used.memory_total_bytes;
    const machine = some(free) && some(all) ? all - free : null;
    const rows = [
      some(used.cpu) ? row("CPU", `${Format.cores(used.cpu)} cores in use by the process`, null) : null,
      some(used.rss_bytes)
        ? row("Memory of the process",
            of(used.rss_bytes, all),
            bar("Memory of the process", used.rss_bytes, all, of(used.rss_bytes, all)))
        : null,
      machine !== null
        ? row("Memory of the machine", `${of(machine, all)}, ${Format.bytes(free)} available`,
            bar("Memory of the machine", machine, all, of(machine, all), true))
        : null,
      (used.gpus ?? []).slice(0, MOST_GPUS).map((gpu, index) => {
        const name = `GPU ${index}`;
        const busy =
          typeof gpu.utilization === "number" ? `${Format.percent(gpu.utilization)} busy` : "how busy is not known";
        const memory = some(gpu.memory_used_bytes)
          ? of(gpu.memory_used_bytes, gpu.memory_total_bytes) : "memory not known";
        return el("div", { class: "gauge", "data-key": name },
          el("span", { class: "gauge-name" }, name,
            gpu.name ? el("span", { class: "muted" }, ` ${Format.clip(gpu.name, 80)}`) : null),
          gpu.lost ? el("span", { class: "high" }, "lost to the driver") : el("span", {}, busy),
          bar(`${name} busy`, gpu.utilization, 1, busy),
          el("span", {}, memory),
          bar(`${name} memory`, gpu.memory_used_bytes, gpu.memory_total_bytes, memory),
          some(gpu.temperature_c) || some(gpu.power_w)
            ? el("span", {},
                [
                  some(gpu.temperature_c) ? `${Format.number(gpu.temperature_c)} °C` : null,
                  some(gpu.power_w) ? `${Format.number(gpu.power_w)} W` : null,
                ]
                  .filter((each) => each !== null)
                  .join(", "))
            : null,
          gpu.throttle?.length > 0 ? el("span", {}, `slowed down by ${[...new Set(gpu.throttle)].join(", ")}`) : null);
      }),
    ];
    return [el("div", { class: "gauges" }, rows), node(doc)];
  }

  return Object.freeze({ progress, resources });
})();

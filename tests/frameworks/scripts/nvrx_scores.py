"""The straggler reports of NVIDIA's resiliency extension on recorded step times: ``nvrx_scores.py TRACES``.

TRACES has traces by their names, each of windows of ranks' medians, in s. Its own timing needs CUDA's profiler; what
scores it does not.
"""

import json
import os
import sys
from pathlib import Path

import torch.distributed as dist
from nvidia_resiliency_ext.straggler.reporting import ReportGenerator  # type: ignore[import-not-found]
from nvidia_resiliency_ext.straggler.statistics import Statistic  # type: ignore[import-not-found]

dist.init_process_group("gloo")
rank = dist.get_rank()
seen = dict[str, list[dict[str, list[float] | list[int]]]]()
for name, trace in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")).items():
    # It remembers the best of each rank.
    reports = ReportGenerator(["relative_perf_scores", "individual_perf_scores"], gather_on_rank0=True)
    seen[name] = []
    for window in trace:
        step = {Statistic.MED: window[rank], Statistic.AVG: window[rank], Statistic.NUM: 100}
        report = reports.generate_report({}, {"step": step})
        if rank == 0:
            found = report.identify_stragglers(gpu_rel_threshold=0.7, gpu_indiv_threshold=0.7)
            seen[name].append(
                {
                    "relative": [report.gpu_relative_perf_scores[each] for each in range(len(window))],
                    "individual": [report.gpu_individual_perf_scores[each] for each in range(len(window))],
                    "worse": sorted(each.rank for each in found["straggler_gpus_relative"]),
                    "dropped": sorted(each.rank for each in found["straggler_gpus_individual"]),
                }
            )
if rank == 0:
    Path(os.environ["SEEN"]).write_text(json.dumps(seen), encoding="utf-8")
dist.barrier()
dist.destroy_process_group()

"""Explain a failure from its logs.

    bytes ──► scanning ──► causes ──► cause with its line and confidence
              lines that   mentions,
              may match    summaries
                  ▲
              signals: catalogues of patterns, compiled

``launchers`` has the words in which Slurm and others say why a job waits or how it ended.

Public face: ``causes.explaining``, ``signals.loading``, ``launchers.traits``. It may import ``model`` alone.
"""

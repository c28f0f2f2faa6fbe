"""Explain a failure from its logs.

    bytes ──► scanning ──► causes ──► cause with its line and confidence
              lines that   mentions,
              may match    summaries
                  ▲
              signals: catalogues of patterns, compiled

Public face: ``causes.explaining``, ``signals.loading``. It may import ``model`` alone.
"""

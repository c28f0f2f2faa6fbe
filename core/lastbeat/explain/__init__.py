"""Explain a failure from its logs.

    bytes ──► scanning ──► causes ──► cause with its line and confidence
              lines that   mentions,
              may match    summaries
                  ▲
              signals: catalogues of patterns, compiled

``flight_recorder`` reads the dumps that PyTorch writes beside logs.
``launchers`` has the words in which Slurm and others say why a job waits or how it ended.

Public face: ``causes``, ``flight_recorder``, ``signals`` and ``launchers.traits``. It may import ``model`` alone.
"""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.explain import causes as causes
    from lastbeat.explain import flight_recorder as flight_recorder
    from lastbeat.explain import launchers as launchers
    from lastbeat.explain import scanning as scanning

# A pass loads these once a run has failed, has a job, or has new text in its logs.
__getattr__ = lazy_face(__name__)

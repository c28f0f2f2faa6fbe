"""Explain a failure from its logs.

    bytes ──► scanning ──► causes ──► cause with its line and confidence
              lines that   mentions,
              may match    summaries
                  ▲
              signals: catalogues of patterns, compiled

``launchers`` has the words in which Slurm and others say why a job waits or how it ended.

Public face: the names below, ``signals`` and ``launchers.traits``. It may import ``model`` alone.
"""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.explain.causes.explaining import explain as explain
    from lastbeat.explain.causes.fingerprint import fingerprint_of as fingerprint_of
    from lastbeat.explain.causes.log_reader import LogReader as LogReader
    from lastbeat.explain.launchers.traits import launcher_traits as launcher_traits
    from lastbeat.explain.scanning.prefixes import origin as origin

# A pass loads these once a run has failed, has a job, or has new text in its logs.
__getattr__ = lazy_face(
    __name__,
    {
        "causes.explaining": ("explain",),
        "causes.fingerprint": ("fingerprint_of",),
        "causes.log_reader": ("LogReader",),
        "launchers.traits": ("launcher_traits",),
        "scanning.prefixes": ("origin",),
    },
)

"""The dumps of PyTorch's flight recorders: who waits for whom in which collective.

    bytes ──► plain_pickle, json_dump ──► dump ──► matching ──► cause
              plain values, an entry      one rank's   the ranks'   in place of what ranks
              at a time                   calls        calls        that only waited say

A *call* is what one rank asked of a group: a collective, or one end of a transfer.
"""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.explain.flight_recorder import cause as cause
    from lastbeat.explain.flight_recorder import dump as dump
    from lastbeat.explain.flight_recorder import json_dump as json_dump
    from lastbeat.explain.flight_recorder import matching as matching
    from lastbeat.explain.flight_recorder import plain_pickle as plain_pickle

# A pass loads these once a run that failed has dumps.
__getattr__ = lazy_face(__name__)

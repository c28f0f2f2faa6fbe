"""HTTP calls that end: how long one may take, what an answer means, and why there was none.

The calls take 0.15 s to import, because they load requests, and few passes send anything.
"""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.alerts.web.calls import NO_ANSWER as NO_ANSWER
    from lastbeat.alerts.web.calls import in_words as in_words
    from lastbeat.alerts.web.calls import one_call as one_call
    from lastbeat.alerts.web.posting import deliver as deliver
    from lastbeat.alerts.web.posting import post as post
    from lastbeat.alerts.web.posting import reach as reach
    from lastbeat.alerts.web.posting import refusal as refusal
    from lastbeat.alerts.web.posting import retry_after_s as retry_after_s

__getattr__ = lazy_face(
    __name__,
    {
        "calls": ("NO_ANSWER", "in_words", "one_call"),
        "posting": ("deliver", "post", "reach", "refusal", "retry_after_s"),
    },
)

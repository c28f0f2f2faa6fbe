"""``explain``: why a run failed, from its logs."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat_cli.explain.rank_facts import RankFacts as RankFacts
    from lastbeat_cli.explain.run import run_sources as run_sources
    from lastbeat_cli.explain.run import similar_failure as similar_failure

# A log that is a file needs no store.
__getattr__ = lazy_face(
    __name__,
    {
        "rank_facts": ("RankFacts",),
        "run": (
            "run_sources",
            "similar_failure",
        ),
    },
)

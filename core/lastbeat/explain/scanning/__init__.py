"""Text → the lines that match a signal: lines, prefixes, patterns, and ways to skip most of the text."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.explain.scanning.template_demand import computed_demand as computed_demand
    from lastbeat.explain.scanning.template_prefilter import shared_prefilter as shared_prefilter

# Both load a parser of regular expressions, which few logs need: built-in catalogues are worked out.
__getattr__ = lazy_face(
    __name__, {"template_demand": ("computed_demand",), "template_prefilter": ("shared_prefilter",)}
)

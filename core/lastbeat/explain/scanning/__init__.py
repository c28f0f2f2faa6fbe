"""Text → the lines that match a signal: lines, prefixes, patterns, and ways to skip most of the text."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.explain.scanning import prefixes as prefixes
    from lastbeat.explain.scanning import template_demand as template_demand
    from lastbeat.explain.scanning import template_prefilter as template_prefilter

# The last two load a parser of regular expressions, which few logs need: built-in catalogues are worked out.
__getattr__ = lazy_face(__name__)

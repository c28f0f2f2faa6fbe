"""The storage of runs: the store port, and one module for each kind of store."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.stores import counting as counting
    from lastbeat.stores import directory as directory
    from lastbeat.stores import retrying as retrying
    from lastbeat.stores import run_names as run_names
    from lastbeat.stores import s3_listing as s3_listing
    from lastbeat.stores import s3_profiles as s3_profiles

# Training loads its own store alone. The last two load botocore, which takes 0.15 s.
__getattr__ = lazy_face(__name__)

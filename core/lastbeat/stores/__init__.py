"""The storage of runs: the store port, and one module for each kind of store."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.stores.counting import CountingStore as CountingStore
    from lastbeat.stores.directory import DirectoryStore as DirectoryStore
    from lastbeat.stores.retrying import RetryingStore as RetryingStore
    from lastbeat.stores.s3_listing import list_folders as list_folders
    from lastbeat.stores.s3_listing import list_page as list_page
    from lastbeat.stores.s3_profiles import profile_settings as profile_settings
    from lastbeat.stores.s3_profiles import provider as provider

# Training loads none of these but its own store, and only what needs botocore waits 0.15 s for it.
__getattr__ = lazy_face(
    __name__,
    {
        "counting": ("CountingStore",),
        "directory": ("DirectoryStore",),
        "retrying": ("RetryingStore",),
        "s3_listing": ("list_folders", "list_page"),
        "s3_profiles": ("profile_settings", "provider"),
    },
)

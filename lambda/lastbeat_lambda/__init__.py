"""The Lambda function around lastbeat: events, the warm environment, logs and metrics."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat_lambda import batches as batches
    from lastbeat_lambda import fleet_page as fleet_page
    from lastbeat_lambda import parameter as parameter
    from lastbeat_lambda import sharding as sharding

# boto3, requests and the batch part of Powertools take up to 0.25 s, and few events need them.
__getattr__ = lazy_face(__name__)

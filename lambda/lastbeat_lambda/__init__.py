"""The Lambda function around lastbeat: events, the warm environment, logs and metrics."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat_lambda.batches import answer_batch as answer_batch
    from lastbeat_lambda.parameter import read_secret as read_secret
    from lastbeat_lambda.sharding import send_shards as send_shards

# boto3, requests and the batch part of Powertools take up to 0.25 s, and few events need them.
__getattr__ = lazy_face(
    __name__, {"batches": ("answer_batch",), "parameter": ("read_secret",), "sharding": ("send_shards",)}
)

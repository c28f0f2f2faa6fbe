"""Amazon SNS: a subject for people, and a JSON body with message attributes for programs.

Attributes for filter policies, each a String: ``run_id``, ``status``, ``severity`` (critical, warning, info) and
``cause``, which is ``none`` if no cause is known. The body is :mod:`lastbeat.alerts.document`.
A FIFO topic gets the run as message group and the alert's key for deduplication.
"""

import hashlib
import re
from typing import TYPE_CHECKING, Any

from lastbeat.alerts.document import encode
from lastbeat.alerts.port import DeliveryError, Receipt
from lastbeat.model.alert import Message
from lastbeat.model.data import dataclass
from lastbeat.model.secrets import Redactor
from lastbeat.model.setting import Setting, SettingValues
from lastbeat.model.text import fit, one_line

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient

_ARN = re.compile(r"arn:aws(?:-[a-z]+)*:sns:([a-z0-9-]{1,40}):(\d{12}):([A-Za-z0-9_-]{1,256}(?:\.fifo)?)", re.ASCII)
# AWS error codes that are transient, besides every 5xx: throttling, and credentials about to be renewed.
_PASSING = frozenset(
    {
        "Throttled", "Throttling", "ThrottlingException", "ThrottledException", "TooManyRequestsException",
        "RequestLimitExceeded", "RequestThrottled", "RequestThrottledException", "BandwidthLimitExceeded",
        "SlowDown", "KMSThrottling", "KMSThrottlingException", "RequestTimeout", "RequestTimeoutException",
        "ServiceUnavailable", "InternalError", "InternalFailure",
        "ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired",
    }
)  # fmt: skip
_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"})
_LOGIN = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run `aws sso login`"
_RENEW = "renew the AWS credentials: `aws sso login`, or a new session token"
_REACH = "check the network, the region in SNS_TOPIC_ARN, and AWS_ENDPOINT_URL if it is set"
_WAIT = "it should pass; alerts wait and are sent again"
_ADVICE = {
    "AuthorizationError": "allow sns:Publish on the topic to this identity",
    "AccessDenied": "allow sns:Publish on the topic to this identity",
    "AccessDeniedException": "allow sns:Publish on the topic to this identity",
    "NotFound": "check SNS_TOPIC_ARN: its region, account and name",
    "NotFoundException": "check SNS_TOPIC_ARN: its region, account and name",
    "InvalidClientTokenId": "check the AWS credentials",
    "SignatureDoesNotMatch": "check the AWS credentials and this machine's clock",
}
_DENIED = frozenset({"AuthorizationError", "AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})


def _parse(text: str) -> str:
    if not _ARN.fullmatch(text):
        raise ValueError("is not the ARN of an SNS topic")
    return text


SNS_TOPIC_ARN = Setting[str | None](
    "SNS_TOPIC_ARN",
    _parse,
    "Amazon SNS topic that alerts are published to, as its ARN.",
    example="arn:aws:sns:us-east-1:123456789012:alerts",
    option="--sns-topic",
)
SETTINGS: tuple[Setting[Any], ...] = (SNS_TOPIC_ARN,)


def channels(values: SettingValues) -> "tuple[Sns, ...]":
    """The SNS channel; none if no topic is set."""
    arn = values[SNS_TOPIC_ARN]
    return (Sns(arn),) if arn else ()


@dataclass(frozen=True, slots=True)
class Sns:
    """One topic. boto3 finds credentials and endpoint; the region is the topic's."""

    arn: str

    @property
    def identity(self) -> str:
        return f"sns:{hashlib.sha256(self.arn.encode()).hexdigest()[:8]}"

    @property
    def describe(self) -> str:
        region, _, topic = self._parts()
        return f"SNS ({topic} in {region})"

    def send(self, message: Message, receipt: Receipt | None = None) -> None:  # noqa: ARG002 - alerts are independent
        self._ask(lambda client: client.publish(**request(self.arn, message)))

    def preview(self, message: Message) -> str:
        wanted = request(self.arn, message)
        attributes = "".join(
            f"{name}: {attribute['StringValue']}\n" for name, attribute in wanted["MessageAttributes"].items()
        )
        return f"Subject: {wanted['Subject']}\n{attributes}\n{wanted['Message']}"

    def check(self) -> str:
        """Check the topic by its attributes. Publishes nothing."""
        try:
            self._ask(lambda client: client.get_topic_attributes(TopicArn=self.arn))
        except _ForbiddenError:
            # Publishing is a separate permission and may still be allowed.
            return f"{self.describe}: cannot be checked without the permission sns:GetTopicAttributes"
        return f"{self.describe}: the topic exists; nothing was published"

    def _parts(self) -> tuple[str, str, str]:
        match = _ARN.fullmatch(self.arn)
        if match is None:
            raise ValueError(f"{self.arn!r} is not the ARN of an SNS topic")
        return match[1], match[2], match[3]

    def _ask(self, call: "Any") -> None:
        import boto3  # noqa: PLC0415 - a quarter of a second that few passes need
        from botocore.config import Config  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

        fault: DeliveryError | None = None
        try:
            # Its own session: boto3's default one is not thread-safe.
            client: SNSClient = boto3.session.Session(region_name=self._parts()[0]).client(
                "sns",
                config=Config(connect_timeout=3, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 2}),
            )
            call(client)
        except ClientError as error:
            fault = _refusal(error, self.describe)
        except (BotoCoreError, ValueError) as error:
            fault = _trouble(error, self.describe)
        if fault is not None:
            raise fault


class _ForbiddenError(DeliveryError):
    """AWS accepts the caller's identity but does not allow this call."""


def request(arn: str, message: Message) -> dict[str, Any]:
    """The arguments of SNS Publish. Pure."""
    attributes = {
        "run_id": message.run_id,
        "status": message.status.value,
        "severity": message.severity,
        "cause": message.cause or "",
    }
    wanted: dict[str, Any] = {
        "TopicArn": arn,
        "Subject": subject(message),
        "Message": encode(message),
        "MessageAttributes": {
            name: {"DataType": "String", "StringValue": fit(one_line(text), 256) or "none"}
            for name, text in attributes.items()
        },
    }
    if arn.endswith(".fifo"):
        # Both are limited to 128 characters, fewer than a run id may have.
        wanted["MessageGroupId"] = _digest(message.run_id)
        wanted["MessageDeduplicationId"] = _digest(message.key or wanted["Message"])
    return wanted


def subject(message: Message) -> str:
    """``lastbeat FAILED: run-7 (cuda_oom)`` in at most 100 printable ASCII characters, as SNS demands."""
    cause = f" ({one_line(message.cause)})" if message.cause and one_line(message.cause) else ""
    text = f"lastbeat {message.event}: {one_line(message.subject)}{cause}"
    printable = re.sub(r"[^ -~]", "?", text)
    return printable if len(printable) <= 100 else printable[:97] + "..."


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", errors="replace")).hexdigest()


def _refusal(error: Any, to: str) -> DeliveryError:
    """The error for an answer of AWS other than 2xx."""
    details = error.response.get("Error", {})
    code = one_line(str(details.get("Code", "Unknown")))[:80]
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    said = Redactor()(fit(one_line(str(details.get("Message", ""))), 200))
    what = f"{to} answered {code}: {said}".rstrip(": ")
    later = code in _PASSING or status == 429 or status >= 500
    kind = _ForbiddenError if code in _DENIED else DeliveryError
    remedy = _RENEW if code in _EXPIRED else _WAIT if later else "check SNS_TOPIC_ARN and the topic's policy"
    return kind(what, retryable=later, advice=_ADVICE.get(code, remedy))


def _trouble(error: Exception, to: str) -> DeliveryError:
    """The error if there is no answer. Leaves out the original text, which may contain a proxy's password."""
    from botocore import exceptions  # noqa: PLC0415 - loaded already: this is one of its errors

    if isinstance(error, exceptions.ParamValidationError):
        return DeliveryError(f"{to}: boto3 refuses the message as invalid", retryable=False)
    names: tuple[tuple[tuple[type[Exception], ...], str, str], ...] = (
        ((exceptions.NoCredentialsError, exceptions.PartialCredentialsError), "no AWS credentials were found", _LOGIN),
        (
            (exceptions.CredentialRetrievalError, exceptions.SSOError),
            "the AWS credentials could not be fetched",
            _RENEW,
        ),
        ((exceptions.ConnectTimeoutError,), "no connection within 3 s", _REACH),
        ((exceptions.ReadTimeoutError,), "no answer within 5 s", _WAIT),
        ((exceptions.SSLError,), "no secure connection could be made (TLS)", "check AWS_CA_BUNDLE"),
        ((exceptions.ProxyConnectionError,), "the proxy could not be used", "check HTTPS_PROXY and HTTP_PROXY"),
        ((exceptions.EndpointConnectionError,), "the endpoint could not be reached", _REACH),
        ((exceptions.ProfileNotFound,), "the AWS profile was not found", "check AWS_PROFILE"),
    )
    found = ((words, advice) for kinds, words, advice in names if isinstance(error, kinds))
    words, advice = next(found, (f"the call failed ({type(error).__name__})", _WAIT))
    return DeliveryError(f"{to}: {words}", retryable=True, advice=advice)

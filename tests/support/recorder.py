"""A proxy that writes down what is asked of AWS, as the actions that a policy has to allow."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from support.proxy import FaultProxy
from support.serving import serving
from support.template import ACCOUNT, REGION, Call

_TARGETS = {
    "AmazonSQS.SendMessage": ("sqs:SendMessage", "QueueUrl"),
    "AmazonSQS.SendMessageBatch": ("sqs:SendMessage", "QueueUrl"),
    "AmazonSSM.GetParameter": ("ssm:GetParameter", "Name"),
    "secretsmanager.GetSecretValue": ("secretsmanager:GetSecretValue", "SecretId"),
}
_OBJECTS = {"GET": "s3:GetObject", "HEAD": "s3:GetObject", "PUT": "s3:PutObject", "DELETE": "s3:DeleteObject"}


class Recorder(FaultProxy):
    """``calls`` holds every signed request; what is not signed needs no permission."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.calls: list[Call] = []

    def ask(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Any:
        given = {name.lower(): value for name, value in headers.items()}
        if "authorization" in given:
            self.calls.append(_call(method, target, body, given))
        return super().ask(method, target, body, headers)


@contextmanager
def run_recorder(upstream: str) -> Iterator[Recorder]:
    """A recorder on a free port, before ``upstream``."""
    recorder = Recorder(upstream)
    with serving(recorder.server, recorder.closing):
        yield recorder


def _call(method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Call:
    url = urlsplit(target)
    if aimed := headers.get("x-amz-target"):
        action, names = _TARGETS[aimed]
        return Call(action, _arn(action, json.loads(body)[names]))
    if method == "POST":
        form = {name: texts[0] for name, texts in parse_qs(body.decode()).items()}
        return Call(f"sns:{form['Action']}", form["TopicArn"])
    bucket, _, key = unquote(url.path).lstrip("/").partition("/")
    query = parse_qs(url.query, keep_blank_values=True)
    if method == "GET" and "list-type" in query:
        return Call("s3:ListBucket", f"arn:aws:s3:::{bucket}", query.get("prefix", [""])[0])
    return Call(_OBJECTS[method], f"arn:aws:s3:::{bucket}/{key}")


def _arn(action: str, name: str) -> str:
    service = action.partition(":")[0]
    rest = {
        "sqs": name.rpartition("/")[2],
        "ssm": f"parameter{name}",
        # Secrets Manager adds a hyphen and six characters to a secret's name.
        "secretsmanager": f"secret:{name}-AbCdEf",
    }[service]
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{rest}"

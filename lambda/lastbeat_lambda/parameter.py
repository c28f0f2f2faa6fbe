"""Reads a secret from Parameter Store or Secrets Manager, with botocore's signature and without a boto3 client.

Importing and making a client takes half a second; the signature alone takes a tenth of that.
"""

import json
from collections.abc import Mapping
from typing import Any

import requests
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from lastbeat.model.json_values import json_object
from lastbeat.stores.s3_credentials import keys_in
from lastbeat_lambda.secret_error import SecretError

_ANSWER_LIMIT = 200_000
_TIMEOUT_S = (3.0, 5.0)


def read_secret(place: str, env: Mapping[str, str], region: str) -> str:
    """The text at ``place``: ``ssm:NAME`` or ``secretsmanager:NAME-OR-ARN``. Raises :class:`SecretError`.

    If the secret is a JSON object with one text, as the console makes them, that text is returned.
    """
    service, _, name = place.partition(":")
    if name.startswith("arn:"):
        region = name.split(":")[3] or region
    if service == "ssm":
        asked: dict[str, object] = {"Name": name, "WithDecryption": True}
        answer = _ask("ssm", "AmazonSSM.GetParameter", asked, env, region)
        parameter = answer.get("Parameter")
        text = parameter.get("Value") if isinstance(parameter, dict) else None
    else:
        answer = _ask("secretsmanager", "secretsmanager.GetSecretValue", {"SecretId": name}, env, region)
        text = answer.get("SecretString")
    if not isinstance(text, str) or not text.strip():
        raise SecretError(f"{place} holds no text; store the address of the Slack webhook there")
    return _only_text(text.strip(), place)


def _only_text(text: str, place: str) -> str:
    if not text.startswith("{"):
        return text
    texts = [each for each in (json_object(text) or {}).values() if isinstance(each, str)]
    if len(texts) != 1:
        raise SecretError(f"{place} holds a JSON object with {len(texts)} texts; store the address alone")
    return texts[0]


def _ask(service: str, target: str, asked: Mapping[str, object], env: Mapping[str, str], region: str) -> dict[str, Any]:
    what = f"{target.partition('.')[2]} of {asked.get('Name') or asked.get('SecretId')}"
    keys = keys_in(env)
    if keys is None:
        raise SecretError(f"{what}: no AWS credentials in the environment, where Lambda puts those of its role")
    url = _endpoint(service, env, region)
    signed = AWSRequest(
        method="POST",
        url=url,
        data=json.dumps(asked),
        headers={"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": target},
    )
    SigV4Auth(Credentials(*keys), service, region).add_auth(signed)
    try:
        with requests.post(
            url, data=signed.data, headers=dict(signed.headers), timeout=_TIMEOUT_S, stream=True
        ) as reply:
            body = reply.raw.read(_ANSWER_LIMIT, decode_content=True)
            status = reply.status_code
    except (requests.RequestException, OSError) as error:
        # Only the error's type is reported, because its text may hold a proxy's password.
        raise SecretError(f"{what}: {service} in {region} could not be reached ({type(error).__name__})") from None
    answer = json_object(body)
    if status != 200 or answer is None:
        kind = str((answer or {}).get("__type", "")).rpartition("#")[2]
        advice = "check its name and region, and that the function's role may read it"
        raise SecretError(f"{what}: {service} in {region} answered {status} {kind[:80]}; {advice}")
    return answer


def _endpoint(service: str, env: Mapping[str, str], region: str) -> str:
    own = f"AWS_ENDPOINT_URL_{'SSM' if service == 'ssm' else 'SECRETS_MANAGER'}"
    suffix = ".cn" if region.startswith("cn-") else ""
    given = env.get(own) or env.get("AWS_ENDPOINT_URL") or f"https://{service}.{region}.amazonaws.com{suffix}"
    return given.rstrip("/") + "/"

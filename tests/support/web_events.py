"""Web requests as a Function URL hands them to Lambda (payload 2.0), and what a browser makes of the answer."""

import base64
import gzip
import json
from typing import Any


def web(path: str, query: str = "", *, method: str = "GET", body: str = "", **headers: str) -> dict[str, Any]:
    """``cookie`` among ``headers`` goes where Lambda puts cookies."""
    cookie = headers.pop("cookie", "")
    host = "abc.lambda-url.us-east-1.on.aws"
    # Lambda hands on only texts and JSON as they are.
    packed = headers.get("content_type") == "application/x-www-form-urlencoded"
    body = base64.b64encode(body.encode()).decode() if packed else body
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    http = {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.7", "userAgent": "curl"}
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        **({"cookies": [cookie]} if cookie else {}),
        "headers": {"host": host, "x-forwarded-proto": "https", "accept-encoding": "gzip", **told},
        "requestContext": {"accountId": "anonymous", "domainName": host, "http": http, "stage": "$default"},
        **({"body": body} if body else {}),
        "isBase64Encoded": packed,
    }


def content(answer: dict[str, Any]) -> str:
    """The body as text, unpacked."""
    if not answer.get("isBase64Encoded"):
        return str(answer["body"])
    packed = base64.b64decode(answer["body"])
    return (gzip.decompress(packed) if answer["headers"].get("content-encoding") == "gzip" else packed).decode()


def document(answer: dict[str, Any]) -> dict[str, Any]:
    assert answer["statusCode"] == 200, answer
    found: dict[str, Any] = json.loads(content(answer))
    return found

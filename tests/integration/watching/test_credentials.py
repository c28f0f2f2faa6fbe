"""AWS credentials are found wherever boto3 finds them; a whole pass against S3 with each kind."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from support import monitor
from support.s3 import ACCESS_KEY, SECRET_KEY, S3Server

RUN = "mistral-20250804-171621"
# What environment() gives of keys; everything else of it stays.
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE")


@contextmanager
def container_agent() -> Iterator[str]:
    """What ECS and EKS Pod Identity offer to a container: an address that gives out credentials."""
    later = (datetime.now(timezone.utc) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    answer = {"AccessKeyId": ACCESS_KEY, "SecretAccessKey": SECRET_KEY, "Token": "session", "Expiration": later}

    class Agent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
            pass

    server = HTTPServer(("127.0.0.1", 0), Agent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/credentials"
    finally:
        server.shutdown()
        server.server_close()


def given(kind: str, folder: Path, agent: str) -> dict[str, str]:
    """The environment of a process that has its credentials in this way."""
    config = folder / "config"
    if kind == "a role that a profile takes on":
        config.write_text(
            "[profile team]\nrole_arn = arn:aws:iam::123456789012:role/watch\nsource_profile = base\n"
            f"[profile base]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
        )
        return {"AWS_CONFIG_FILE": str(config), "AWS_PROFILE": "team"}
    if kind == "a web identity":
        token = folder / "token"
        token.write_text("a token of the cluster")
        role = "arn:aws:iam::123456789012:role/watch"
        return {"AWS_WEB_IDENTITY_TOKEN_FILE": str(token), "AWS_ROLE_ARN": role}
    assert kind == "a container"
    return {"AWS_CONTAINER_CREDENTIALS_FULL_URI": agent}


@pytest.mark.parametrize("kind", ["a role that a profile takes on", "a web identity", "a container"])
def test_a_pass_with_credentials_from(kind: str, s3_server: S3Server, tmp_path: Path) -> None:
    bucket = s3_server.bucket()
    s3_server.client().put_object(Bucket=bucket, Key=f"training-runs/{RUN}/_complete", Body=b"")
    common = {name: value for name, value in s3_server.environment().items() if name not in KEYS}
    with container_agent() as agent:
        env = {**common, "MONITORING_BUCKET": bucket, **given(kind, tmp_path, agent)}
        answer = monitor.once(tmp_path, env, RUN)
    assert (answer["status"], answer["exit"]) == ("SUCCEEDED", 0), answer


def test_without_any_credentials_it_says_so(s3_server: S3Server, tmp_path: Path) -> None:
    env = {name: value for name, value in s3_server.environment().items() if name not in KEYS}
    answer = monitor.once(tmp_path, {**env, "MONITORING_BUCKET": s3_server.bucket()}, RUN)
    assert (answer["status"], answer["exit"]) == ("UNKNOWN", 3)
    assert "credentials" in answer["reason"]
    assert "AWS_PROFILE" in answer["action"]

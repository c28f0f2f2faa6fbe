"""The dashboard's application over a fleet that is made up, asked without a socket."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lastbeat.model.as_json import as_json
from lastbeat.stores.port import UnreachableError
from lastbeat.views.page.assembling import HtmlPage
from lastbeat.views.served.answer import Body, Response, body, json_body
from lastbeat.views.served.app import App, DataSources, TooManyOpenError
from lastbeat.views.served.door import Door

TOKEN = "a-token-of-some-length"
PAGE = HtmlPage(b"<!doctype html><title>page</title>" + b" " * 600, "default-src 'none'; script-src 'sha256-x'")


@dataclass
class Fleet:
    asked: list[tuple[object, ...]] = field(default_factory=list)

    def document(self, since: int | None, epoch: str | None, look: Sequence[str], keys: Sequence[str]) -> Body:
        self.asked.append((since, epoch, tuple(look), *([tuple(keys)] if keys else ())))
        return json_body({"runs": ["x" * 1000]})


def run_document(run_id: str) -> Body | None:
    if run_id == "broken":
        raise ValueError("secrets of the inside")
    if run_id == "unreachable":
        raise UnreachableError("s3://b: no\nanswer", "try\tagain")
    if run_id == "colourful":
        raise UnreachableError(f"refused: hf_{'a' * 10}\x1b[31m{'a' * 24}")
    if run_id == "busy":
        raise TooManyOpenError
    return json_body({"run": run_id}) if run_id == "run-1" else None


@dataclass
class Silences:
    asked: list[tuple[bytes, str]] = field(default_factory=list)

    users: list[str] = field(default_factory=list)

    def answer(self, asked: bytes, address: str, user: str = "") -> Response:
        self.asked.append((asked, address))
        self.users.append(user)
        return Response("200 OK", json_body({"silences": []}))


def app(
    token: str | None = None,
    *,
    local: bool = True,
    name: str = "lastbeat-1",
    door: Door | None = None,
    fleet: Fleet | None = None,
    silences: Silences | None = None,
    slack: Callable[[bytes, str, str], Response] | None = None,
) -> App:
    opens = door or Door(local, token, name)
    sources = DataSources(
        fleet=(fleet or Fleet()).document,
        run=run_document,
        curves=lambda run_id, asked: json_body({"of": run_id, "asked": as_json(asked)}) if run_id == "run-1" else None,
        comparison=lambda run_ids, asked: json_body({"of": run_ids, "asked": as_json(asked)}),
        losses=lambda: json_body({"causes": []}),
        metrics=lambda accept: Response("200 OK", body(f"lastbeat_up 1\n# {accept}\n".encode(), "text/plain")),
        change=(silences or Silences()).answer,
        slack=slack,
    )
    return App(PAGE, sources, opens)


@dataclass
class Got:
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


def ask(
    here: App,
    path: str = "/",
    query: str = "",
    method: str = "GET",
    environ: Any = None,
    **headers: str,
) -> Got:
    got: list[tuple[str, list[tuple[str, str]]]] = []
    asked = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query, "HTTP_HOST": "127.0.0.1:8000"}
    asked |= {**(environ or {}), **{f"HTTP_{name.upper()}": text for name, text in headers.items()}}
    content = b"".join(here(asked, lambda status, sent: got.append((status, sent))))
    [(status, sent)] = got
    assert len(sent) == len(dict(sent)), "a header was sent twice"
    return Got(int(status.split()[0]), dict(sent), content)

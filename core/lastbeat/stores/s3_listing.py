"""Lists through botocore, for roots with a key that obstore cannot represent."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from lastbeat.stores import answers
from lastbeat.stores.port import Entry, Page, UnreachableError
from lastbeat.stores.s3 import REMEDIES
from lastbeat.stores.s3_credentials import credential_provider
from lastbeat.stores.s3_profiles import session

if TYPE_CHECKING:
    from lastbeat.stores.s3_store import Place


def list_page(place: "Place", env: Mapping[str, str], folder: str, start_after: str, limit: int) -> Page:
    """A page by one request, as :meth:`lastbeat.stores.port.Store.list`. Such keys are listed like any other."""
    root = _root(place)
    with _asking(place, env, f"listing {folder or 'the root'}") as client:
        asked = {"Bucket": place.root.place, "Prefix": root + folder, "MaxKeys": limit}
        if start_after:
            asked["StartAfter"] = root + start_after
        found: dict[str, Any] = client.list_objects_v2(**asked)
    entries = tuple(
        Entry(item["Key"][len(root) :], item["Size"], item["LastModified"], item["ETag"])
        for item in found.get("Contents", ())
    )
    return Page(entries, more=bool(found.get("IsTruncated")))


def list_folders(place: "Place", env: Mapping[str, str]) -> tuple[str, ...]:
    """As :meth:`lastbeat.stores.port.Store.folders`; a folder without a name is left out."""
    root = _root(place)
    with _asking(place, env, "listing the folders of the root") as client:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=place.root.place, Prefix=root, Delimiter="/")
        found = [item["Prefix"][len(root) : -1] for page in pages for item in page.get("CommonPrefixes", ())]
    return tuple(name for name in found if name)


def _root(place: "Place") -> str:
    return f"{place.root.prefix}/" if place.root.prefix else ""


@contextmanager
def _asking(place: "Place", env: Mapping[str, str], doing: str) -> Iterator[Any]:
    """A boto3 client with the store's limits. Its errors become :class:`StoreError`."""
    keys = credential_provider(env, place.root.url)()
    config = Config(
        connect_timeout=place.connect_s,
        read_timeout=place.request_s,
        retries={"total_max_attempts": 1},
        s3={"addressing_style": "path"},
    )
    try:
        client: Any = session(env).create_client(
            "s3",
            region_name=place.region,
            endpoint_url=place.endpoint,
            verify=place.ca_bundle,
            aws_access_key_id=keys["access_key_id"],
            aws_secret_access_key=keys["secret_access_key"],
            aws_session_token=keys.get("token"),
            config=config,
        )
        try:
            yield client
        finally:
            client.close()
    except ClientError as error:
        answer = error.response
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        raise answers.from_answer(
            status, answer.get("Error", {}).get("Code"), None, place.root.url, doing, REMEDIES
        ) from None
    except BotoCoreError as error:
        raise UnreachableError(f"{place.root.url}: no answer when {doing} ({type(error).__name__})") from None

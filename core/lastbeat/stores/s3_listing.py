"""A page of a listing through boto3, for the page in which somebody wrote a key that obstore refuses to name."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lastbeat.stores import answers
from lastbeat.stores.port import Entry, Page, UnreachableError
from lastbeat.stores.s3_credentials import credential_provider, session

if TYPE_CHECKING:
    from lastbeat.stores.s3 import Place


def list_page(place: "Place", env: Mapping[str, str], folder: str, start_after: str, limit: int) -> Page:
    """One request, as :meth:`lastbeat.stores.port.Store.list`. Such keys are listed like any other."""
    from botocore.config import Config  # noqa: PLC0415
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    root = f"{place.prefix}/" if place.prefix else ""
    keys = credential_provider(env, place.url)()
    doing = f"listing {folder or 'the root'}"
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
        asked = {"Bucket": place.bucket, "Prefix": root + folder, "MaxKeys": limit}
        if start_after:
            asked["StartAfter"] = root + start_after
        try:
            found: dict[str, Any] = client.list_objects_v2(**asked)
        finally:
            client.close()
    except ClientError as error:
        answer = error.response
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        raise answers.from_answer(status, answer.get("Error", {}).get("Code"), None, place.url, doing) from None
    except BotoCoreError as error:
        raise UnreachableError(f"{place.url}: no answer when {doing} ({type(error).__name__})") from None
    entries = tuple(
        Entry(item["Key"][len(root) :], item["Size"], item["LastModified"], item["ETag"])
        for item in found.get("Contents", ())
    )
    return Page(entries, more=bool(found.get("IsTruncated")))

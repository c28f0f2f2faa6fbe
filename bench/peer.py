"""What a user would write without lastbeat: boto3, the same four keys, a verdict and nothing else.

python bench/peer.py BUCKET PREFIX RUN_ID [STALE_MINUTES]
"""

import json
import sys
from datetime import datetime, timedelta, timezone

import boto3
from botocore.exceptions import ClientError


def main(bucket: str, prefix: str, run_id: str, stale_minutes: str = "10") -> int:
    s3 = boto3.client("s3")

    def exists(name: str) -> bool:
        try:
            s3.head_object(Bucket=bucket, Key=f"{prefix}/{run_id}/{name}")
        except ClientError as error:
            if error.response["Error"]["Code"] in {"404", "NoSuchKey", "NotFound"}:
                return False
            raise
        return True

    def age_of(name: str) -> timedelta | None:
        try:
            answer = s3.get_object(Bucket=bucket, Key=f"{prefix}/{run_id}/{name}")
        except ClientError as error:
            if error.response["Error"]["Code"] in {"404", "NoSuchKey", "NotFound"}:
                return None
            raise
        json.loads(answer["Body"].read())
        return datetime.now(timezone.utc) - answer["LastModified"]

    ages = [age for age in (age_of("metadata.json"), age_of("progress.json")) if age is not None]
    failed, complete = exists("_error"), exists("_complete")
    if failed:
        print(f"Run {run_id}: FAILED")
        return 2
    if complete:
        print(f"Run {run_id}: SUCCEEDED")
        return 0
    if all(age > timedelta(minutes=float(stale_minutes)) for age in ages):
        print(f"Run {run_id}: TIMED_OUT")
        return 2
    print(f"Run {run_id}: RUNNING")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

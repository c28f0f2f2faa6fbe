"""What wandb's own file says of a run's end: ``wandb_exit.py FILE.wandb``, where wandb is installed.

The file is a log of protocol buffers as LevelDB writes its logs: blocks of 32 KB, a header of 7 bytes before each part.
"""

import sys
from pathlib import Path

from wandb.proto import wandb_internal_pb2

BLOCK, HEADER, WHOLE, LAST = 32768, 7, 1, 4


def main(data: bytes) -> str:
    at, body = HEADER, b""
    while at + HEADER <= len(data):
        if BLOCK - at % BLOCK < HEADER:
            at += BLOCK - at % BLOCK
            continue
        length, part = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        body += data[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if part in {WHOLE, LAST}:
            record = wandb_internal_pb2.Record()
            record.ParseFromString(body)
            if record.WhichOneof("record_type") == "exit":
                return f"exit code {record.exit.exit_code}"
            body = b""
    return "no word of an end"


if __name__ == "__main__":
    sys.stdout.write(main(Path(sys.argv[1]).read_bytes()) + "\n")

"""Alerts to send: two that look like life, and hostile ones without end."""

from datetime import datetime, timedelta, timezone

from hypothesis import strategies as st

from lastbeat.model.alert import Message
from lastbeat.model.cause import Evidence
from lastbeat.model.figures import Figures
from lastbeat.model.status import Event, Status

AT = datetime(2025, 8, 4, 17, 16, 21, tzinfo=timezone.utc)

FAILED = Message(
    run_id="mistral-20250804-171621",
    event=Event.FAILED,
    status=Status.FAILED,
    reason="torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 3; <79.2 GiB total)",
    at=AT,
    since=AT - timedelta(seconds=40),
    attempt=2,
    cause="cuda_out_of_memory",
    confidence=0.9,
    evidence=Evidence(
        file="rank3.log",
        line=48112,
        text="torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB <!channel>",
        rank=3,
        host="node-17",
        time=AT - timedelta(seconds=40),
    ),
    frames=(
        "/fsx/exp/train.py:88 in step: loss = model(batch) <!channel>",
        "/fsx/exp/train.py:210 in <module>: main()",
        "torch/nn/functional.py:1912 in linear: return F.linear(x, w)",
    ),
    also_seen=(
        "then rank0.log:48120 (rank 0): [Rank 0] Watchdog caught collective operation timeout",
        "then rank1.log:48119 (rank 1): RuntimeError: Connection closed by peer [10.0.0.17]:29500",
    ),
    action="Reduce the batch size or the sequence length, or switch on gradient checkpointing.",
    conditions={"progress_stale": "progress.json is 14m old"},
    instance_id="i-0abc123def4567890",
    phase="training",
    duration_s=7503.0,
    figures=Figures(1200, 5000, 2.34567),
    log_tail=(
        *(f"step {n} loss 2.351 lr 3.0e-04" for n in range(1186, 1200)),
        "\x1b[31mTraceback (most recent call last):\x1b[0m",
        '  File "train.py", line 210, in <module>',
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    ),
    notes=("Only the last 64 KB of the log were read.",),
    where="s3://ml-training/training-runs/mistral-20250804-171621/",
    link="https://s3.console.aws.amazon.com/s3/buckets/ml-training?prefix=training-runs/mistral-20250804-171621/&region=us-east-1",
    checkpoint="step 1000, saved 12m before",
    key="mistral-20250804-171621/2/3/FAILED",
)

TIMED_OUT = Message(
    run_id="mistral-20250804-171621",
    event=Event.TIMED_OUT,
    status=Status.TIMED_OUT,
    reason="Both heartbeats stale (>10m)",
    at=AT + timedelta(hours=3),
    cause="heartbeats_stale",
    confidence=0.4,
    action="SSH to the instance and check training.log, nvidia-smi and the disk space.",
    instance_id="node-17",
    phase="evaluation",
    duration_s=93784.0,
    figures=Figures(1200),
    where="/shared/training-runs/mistral-20250804-171621",
    key="mistral-20250804-171621/1/2/TIMED_OUT",
)

STALLED = Message(
    run_id="mistral-20250804-171621",
    event=Event.WARNING,
    status=Status.RUNNING,
    reason="stalled: No progress: still at step 1200 after 30m (limit 30m)",
    at=AT + timedelta(hours=1),
    conditions={"stalled": "No progress: still at step 1200 after 30m (limit 30m)"},
    instance_id="i-0abc123def4567890",
    phase="training",
    duration_s=7503.0,
    figures=Figures(1200, 5000),
    log_tail=("step 1199 loss 2.349 lr 3.0e-04", "step 1200 loss 2.348 lr 3.0e-04"),
    stack=(
        'File "train.py", line 210, in <module>',
        'File "/opt/conda/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2806, in barrier',
    ),
    where="s3://ml-training/training-runs/mistral-20250804-171621/",
    key="mistral-20250804-171621/2/4",
)

GROUP = Message(
    run_id="_groups",
    event=Event.TIMED_OUT,
    status=Status.TIMED_OUT,
    reason="97 of the 400 runs being watched timed out together, 4 of them told of one by one before",
    at=AT + timedelta(hours=2),
    action="Look first at what they share, listed below.",
    members=tuple(f"mistral-20250804-1716{n:02d}" for n in range(50)),
    member_count=93,
    shared={"Zone": "us-east-1a (93 of 97)", "Reason": "Both heartbeats stale (>10m) (all 97)"},
    where="s3://ml-training/training-runs",
    key="_groups/3",
)

PIECES = (
    "<!channel>", "<!here|x>", "<@U123ABC>", "<#C123>", "<https://evil.example|click>", "*bold*", "_it_", "~no~",
    "`", "```", "```\n<!channel>", "&", "&lt;", "&amp;", "<", ">", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x00",
    "\r", "\r\n", "\n", "\t", "\u202eevil", "\u2066", "\u2028", "\x85", "\ud800", "\uffff", "日本語", "🔥", "é",
    "👩‍👩‍👧", "@channel", "@here", "http://evil.example", "x" * 700, "🔥" * 400, "&" * 900, "\n" * 300, '"', "\\", " ",
)  # fmt: skip

hostile_text = st.one_of(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.text(max_size=80))
_numbers = st.one_of(st.none(), st.integers(), st.just(10**5000), st.just(-(10**400)))
_floats = st.one_of(st.none(), st.floats())

hostile_messages = st.builds(
    Message,
    run_id=hostile_text,
    event=st.sampled_from(Event),
    status=st.sampled_from(Status),
    reason=hostile_text,
    at=st.integers(min_value=0, max_value=4 * 10**9).map(lambda s: datetime.fromtimestamp(s, tz=timezone.utc)),
    attempt=st.integers(),
    cause=st.none() | hostile_text,
    confidence=_floats,
    second_cause=st.none() | hostile_text,
    evidence=st.none()
    | st.builds(
        Evidence,
        file=hostile_text,
        line=st.integers() | st.just(10**5000),
        text=hostile_text,
        rank=_numbers,
        host=st.none() | hostile_text,
        time=st.none() | st.just(AT),
    ),
    frames=st.lists(hostile_text, max_size=8).map(tuple),
    also_seen=st.lists(hostile_text, max_size=8).map(tuple),
    action=st.none() | hostile_text,
    conditions=st.dictionaries(hostile_text, hostile_text, max_size=30),
    instance_id=st.none() | hostile_text,
    phase=st.none() | hostile_text,
    duration_s=_floats,
    figures=st.builds(Figures, _numbers, _numbers, _floats),
    log_tail=st.lists(hostile_text, max_size=40).map(tuple),
    stack=st.lists(hostile_text, max_size=20).map(tuple),
    notes=st.lists(hostile_text, max_size=30).map(tuple),
    where=hostile_text,
    since=st.none() | st.just(AT),
    checkpoint=st.none() | hostile_text,
    restart=st.none() | hostile_text,
    owner=st.none() | hostile_text,
    team=st.none() | hostile_text,
    ranks=st.none() | hostile_text,
    log_name=st.just("") | hostile_text,
    member_notes=st.lists(hostile_text, max_size=70).map(tuple),
    link=st.none() | hostile_text | hostile_text.map(lambda text: "https://console.example/" + text),
    key=hostile_text,
    members=st.lists(hostile_text, max_size=70).map(tuple),
    member_count=st.just(0) | st.integers() | st.just(10**400),
    shared=st.dictionaries(hostile_text, hostile_text, max_size=12),
)

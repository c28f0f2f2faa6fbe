# ruff: noqa: E501 - lines of logs are as long as they are
"""What depends on the catalogue: one of one's own, one for a framework, and what the default one says by the way."""

from lastbeat.explain.causes.explaining import explain_text
from lastbeat.explain.scanning.matching import matcher_of
from lastbeat.explain.signals.loading import load, load_setting
from lastbeat.model.signal import Signal
from support.explained import cause_of
from support.printed import CHILD_FAILED, STEPS
from support.row_by_row import check_each

OWN = """\
extends: [base]
error_types:
  licence:
    restartable: true
    meaning: No licence was free.
    hint: 'Wait, or buy more: lmstat -a.'
signals:
  solver_failed:
    pattern: 'SolverError: job \\d{1,9} failed'
    error_type: exception
    envelope: true
  no_seat:
    pattern: '^reason: no seat for \\w{1,40}'
    error_type: licence
"""
ENVELOPES = {
    "in the line below": ("licence", "SolverError: job 7 failed\nreason: no seat for mesher\n"),
    "a few lines below": ("licence", "SolverError: job 7 failed\n  at solver.c:12\n\nreason: no seat for mesher\n"),
    "no detail": ("exception", "SolverError: job 7 failed\nreason: unknown\n"),
    "too far below: another story": (
        "exception",
        "SolverError: job 7 failed\n" + "output of the solver\n" * 9 + "reason: no seat for mesher\n",
    ),
}


def test_a_catalogue_of_ones_own_may_have_envelopes() -> None:
    check_each(ENVELOPES.items(), has_the_cause)


def has_the_cause(error_type: str, text: str) -> None:
    found = explain_text(STEPS + text, load_setting("own.yaml", lambda _: OWN))
    assert cause_of(found).error_type == error_type


def test_a_signal_of_ones_own_that_crashes_ends_a_run_where_it_stands_last() -> None:
    known = load("default")
    own = Signal("licence_lost", "licence server said no", verdict="crash", error_type="environment")
    catalogue = known._replace(signals=(own, *known.signals))
    said = "trainer: licence server said no\n"
    assert explain_text(STEPS + said, catalogue).ended
    assert not explain_text(STEPS + said + "trying the other one\nfound it\n", catalogue).ended


RENDEZVOUS = """\
[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).
[E socket.cpp:462] [c10d] The server socket has failed to listen on any local network address.
Traceback (most recent call last):
  File "/opt/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/venv/lib/python3.10/site-packages/torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py", line 55, in next_rendezvous
    self._store = TCPStore(
RuntimeError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).
"""
WATCHDOG = "".join(
    f"[E ProcessGroupNCCL.cpp:828] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1801501 milliseconds before timing out.\n"
    for rank in (1, 0)
)


def test_a_launch_that_found_the_port_taken_says_nothing_of_the_job_that_has_it() -> None:
    steps = "".join(f"step {n}0/1000 loss 2.5{n} lr 3.0e-04\n" for n in range(1, 6))
    text = steps + RENDEZVOUS + WATCHDOG + CHILD_FAILED
    causes = [explain_text(text, load(catalogue)).cause for catalogue in ("default", "megatron_nccl")]
    assert [cause.error_type for cause in causes if cause is not None] == ["nccl_timeout", "nccl_timeout"]


FAILED = "[default0]:NCCL ERROR timeout\n"


def test_a_warning_is_kept_beside_whatever_is_the_cause() -> None:
    slow = "STRAGGLER DETECTION WARNING: Some GPUs performance dropped. Affected ranks: {13}"
    for text in (f"{STEPS}{slow}\n", f"{STEPS}{slow}\n{FAILED}"):
        found = explain_text(text, load("default"))
        assert [each.evidence.text for each in found.warned] == [slow]
        assert "slower" in found.warned[0].hint


def test_a_catalogue_of_ones_own_may_warn() -> None:
    own = "signals:\n  hot:\n    pattern: 'inlet at (?P<degrees>\\d{2,3}) degrees'\n    kind: warning\n    hint: 'It is {degrees} degrees warm.'\n"
    catalogue = load_setting("own.yaml", lambda _: own)
    found = explain_text(f"{STEPS}inlet at 45 degrees\ninlet at 47 degrees\n", catalogue)
    assert (found.cause, [each.hint for each in found.warned]) == (None, ["It is 47 degrees warm."])
    assert explain_text("INFO: inlet at 45 degrees\n", catalogue).warned == ()


def test_a_planned_exit_is_known_as_one() -> None:
    lines = [
        "[exiting program after 235.2 minutes] datetime: 2026-03-01 10:00:00",
        "exit duration reached, checkpoint saved",
        "Reached exit interval 1000",
        "--exit-duration-in-mins 230 expired, saving",
        "planned exit after 4 h",
    ]
    matcher = matcher_of(load("default"))
    unknown = [line for line in lines if "planned_exit" not in {signal.kind for signal, _ in matcher.matches(line)}]
    assert unknown == []

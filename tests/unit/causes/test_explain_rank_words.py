# ruff: noqa: E501 - lines of logs are as long as they are
"""What ranks, and wrappers around them, say in a line of their own: timeouts, reruns, simulated faults, stragglers."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.signals.hints import GUESS
from lastbeat.signals.loading import load, load_setting
from support.printed import STEPS

SRUN = "srun: error: n2: task 1: Exited with exit code 1\nsrun: Terminating StepId=88.0\n"
RERUN = "ERROR:megatron.core.rerun_state_machine:Unexpected result tensor(nan) on rank 0 at iteration #150 invocation #1 (message='loss is NaN')\n"
ELSEWHERE = "WARNING:megatron.core.rerun_state_machine:First rerun: unexpected result is reproducible within the tolerance (nan = nan). Need to rerun on a different GPU to verify correctness\n"
TRANSIENT = "ERROR:lastbeat:Rank 0, node n12, device GPU-5c8e, iteration #150: Possible transient error!\n"

CASES = [
    pytest.param("nccl_timeout", "[default0]:NCCL ERROR timeout\n", id="in capitals, behind torchrun's prefix"),
    pytest.param("nccl_timeout", "[default3]: NCCL ERROR: timeout in all_reduce\n", id="with a colon"),
    pytest.param("nccl_timeout", "[rank3]: NCCL ERROR (timeout) after 1800 s\n", id="in brackets"),
    pytest.param("nccl_timeout", "2: NCCL timeout\n", id="nothing but these words, behind srun's prefix"),
    pytest.param("nccl_timeout", "[default1]:ProcessGroupNCCL timeout on rank 3\n", id="with who it was"),
    pytest.param("nccl_timeout", "ERROR: NCCL timeout\n", id="at the level of an error"),
    pytest.param("nccl_timeout", "RuntimeError: NCCL timeout\n", id="as an exception"),
    pytest.param("nccl_timeout", "NCCL operation timed out\n", id="of an operation"),
    pytest.param("nccl", "[default0]:NCCL ERROR unhandled cuda error\n", id="another error in capitals"),
    pytest.param(
        "communication",
        "[default0]:NCCL ERROR: Connection closed by remote peer n7<4711>\n" + SRUN,
        id="the detail in the same line",
    ),
    pytest.param(
        "nccl",
        "[default0]:NCCL WARN bad things\n" + SRUN,
        id="a warning is the best there is where a process just ended",
    ),
    pytest.param(
        "communication",
        "[rank2]: NCCL WARN: Connection closed by remote peer n7<4711>\n" + SRUN,
        id="a warning with a colon",
    ),
    # Megatron's reruns
    pytest.param("numerical_instability", RERUN + SRUN, id="a value that Megatron did not expect"),
    pytest.param(
        "numerical_instability",
        RERUN + ELSEWHERE + "torchrun exited with exit code 16\n",
        id="it asks to be started on another GPU",
    ),
    pytest.param(
        "numerical_instability",
        "ERROR:megatron.core.rerun_state_machine:Unexpected result nan at /srv/loss.py line 71, invokation #1 at iteration #150 (message='found NaN in loss')\n"
        + SRUN,
        id="as newer versions say it",
    ),
    pytest.param(
        "hardware",
        RERUN
        + "ERROR:megatron.core.rerun_state_machine:Rank 0, node n12, device 3: Possible persistent error!!\nexiting with exit code 17\n",
        id="the same step is right on another GPU",
    ),
    pytest.param("hardware", "Possible persistent error!\n", id="in short"),
    # faults on purpose
    pytest.param(
        "cancelled",
        "####\nFT: Simulating fault: rank_killed; rank to fail: 2\n####\n" + SRUN.replace("code 1", "code 137"),
        id="a fault that was asked for",
    ),
    pytest.param(
        "cancelled",
        "FT: Simulating fault: rank_killed; rank to fail: 2\n[rank1]:[E307 10:16:42.1 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=88, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600325 milliseconds before timing out.\n",
        id="what followed from it",
    ),
]


@pytest.mark.parametrize(("error_type", "text"), CASES)
def test_it_is_the_cause(error_type: str, text: str) -> None:
    found = explain_text(STEPS + text, load("default"))
    assert found.cause is not None
    assert found.cause.error_type == error_type
    assert found.ended


def test_a_result_in_doubt_is_run_again_and_has_ended_nothing_yet() -> None:
    found = explain_text(STEPS + RERUN, load("default"))
    assert found.cause is not None
    assert found.cause.error_type == "numerical_instability"
    assert not found.ended
    assert not explain_text(STEPS + RERUN + TRANSIENT + STEPS, load("default")).ended


@pytest.mark.parametrize(
    "line",
    [
        ELSEWHERE.replace("WARNING", "ERROR"),
        "ERROR:lastbeat:Rank 0, node n12, device GPU-5c8e, iteration #150: Need to rerun on a different GPU to verify correctness\n",
        "ERROR:lastbeat:Rank 0, node n12, device GPU-5c8e, iteration #150: Got rescheduled on the same GPU\n",
    ],
)
def test_a_run_that_leaves_for_another_gpu_has_ended(line: str) -> None:
    found = explain_text(STEPS + RERUN + line, load("default"))
    assert found.ended
    assert found.cause is not None
    assert found.cause.error_type == "numerical_instability"


HEALTHY = [
    pytest.param("NCCL timeout: 1800", id="a limit that is shown"),
    pytest.param("Setting NCCL timeout to 30 minutes", id="a limit that is set"),
    pytest.param("  nccl_timeout ................................... 600", id="a limit among arguments"),
    pytest.param("INFO: NCCL timeout is 600 s", id="a limit in a log"),
    pytest.param("INFO - ProcessGroupNCCL timeout 0:30:00", id="the group's limit in a log"),
    pytest.param("NCCL timeout in seconds: 1800", id="a limit with its unit"),
    pytest.param("Increasing the NCCL timeout", id="a limit that grows"),
    pytest.param("if this hangs, look for an NCCL timeout in the other logs", id="advice"),
    pytest.param("NCCL version 2.26.2+cuda12.2", id="NCCL's version"),
    pytest.param(
        "[default0]:NCCL WARN no libnccl-net.so found, using internal network",
        id="a warning of something that is optional",
    ),
    pytest.param("Rank 3, node n12, device 3: Possible transient error!!", id="a value that came once and not again"),
    pytest.param("Result validation enabled", id="that values are watched"),
    pytest.param(
        "STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: {13, 45}",
        id="slow GPUs",
    ),
    pytest.param("FT: Selected fault=rank_killed; target rank=2; delay=31.5", id="a fault that is planned"),
    pytest.param("--simulated-fault-type rank_killed", id="an argument for it"),
]


@pytest.mark.parametrize("line", HEALTHY)
def test_it_ends_nothing(line: str) -> None:
    catalogue = load("default")
    assert explain_text(f"{STEPS}{line}\n", catalogue).cause is None
    later = "".join(f"step {step}/1000 loss 2.{step}\n" for step in range(30, 36))
    assert explain_text(f"{STEPS}{line}\n{later}", catalogue).cause is None


def test_a_transient_error_takes_the_value_above_it_back() -> None:
    """Megatron computes the step again and goes on."""
    text = f"{STEPS}{RERUN}WARNING: First rerun: unexpected result is not reproducible within the tolerance (nan != 2.31)\nERROR: Possible transient error!\n"
    assert explain_text(text, load("default")).cause is None


def test_a_simulated_fault_says_that_nothing_is_broken() -> None:
    cause = explain_text(f"{STEPS}FT: Simulating fault: rank_hung; rank to fail: 2\n", load("default")).cause
    assert cause is not None
    assert "(rank_hung) of rank 2" in cause.hint.removeprefix(GUESS)


SPEEDS = [
    pytest.param("perf/throughput: {n}1.5", id="verl's"),
    pytest.param("{n}1,234 tokens/s", id="tokens a second"),
    pytest.param("[trainer] speed {n}10.5 samples/s", id="samples a second"),
]
FAILED = "[default0]:NCCL ERROR timeout\n"


@pytest.mark.parametrize("line", SPEEDS)
def test_training_that_goes_on_measuring_its_speed_has_survived(line: str) -> None:
    going_on = "".join(line.format(n=n) + "\n" for n in range(1, 6))
    assert (
        explain_text(
            STEPS + going_on + FAILED + "".join(line.format(n=n) + "\n" for n in range(6, 9)), load("default")
        ).cause
        is None
    )


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(
            "INFO Avg prompt throughput: {n}.0 tokens/s, Avg generation throughput: 30.0 tokens/s, Running: 2 reqs",
            id="vLLM beside a dead trainer",
        ),
        pytest.param("Downloading shard at {n}1 samples/s", id="a download"),
        pytest.param("NCCL ERROR timeout after {n} s at 12 tokens/s", id="the same failure again"),
    ],
)
def test_other_speeds_prove_nothing(line: str) -> None:
    text = STEPS + FAILED + "".join(line.format(n=n) + "\n" for n in range(6, 12))
    cause = explain_text(text, load("default")).cause
    assert cause is not None
    assert cause.error_type == "nccl_timeout"


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

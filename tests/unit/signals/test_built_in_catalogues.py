"""The catalogues that lastbeat brings along: what each is for, and the lines of each framework."""

import re

import pytest

from lastbeat.explain.scanning.matching import matcher_of
from lastbeat.explain.signals.error_types import TYPES
from lastbeat.explain.signals.hints import fields_of, filled
from lastbeat.explain.signals.loading import description, load, names
from lastbeat.model.signal import Catalogue, Signal
from support.row_by_row import check_each

HINT_LIMIT = 400
"""Characters of a hint: it has to be read on a telephone at night."""
ITERATION = (
    " [2026-01-01 10:00:00] iteration      100/  500000 | consumed samples:        25600 | elapsed time per iteration "
    "(ms): 512.3 | throughput per GPU (TFLOP/s/GPU): 401.1 | learning rate: 1.500E-04 | global batch size:   256 | "
    "lm loss: {loss} | loss scale: 1.0 | grad norm: {norm} | number of skipped iterations:   0 | "
    "number of nan iterations:   {nan} |"
)


def matched(catalogue: Catalogue, line: str) -> list[str]:
    return [signal.name for signal, _ in matcher_of(catalogue).matches(line)]


def kinds(name: str) -> set[str]:
    """The error types that a catalogue knows failures of."""
    return {signal.error_type for signal in load(name).signals if signal.error_type is not None}


def test_there_are_those_that_users_name() -> None:
    assert {"base", "default", "huggingface", "lightning", "deepspeed", "jax"} <= set(names())
    assert {f"megatron_{what}" for what in ("basic", "nccl", "stall_detection", "production")} <= set(names())


def test_each_says_what_it_is_for() -> None:
    wrong = [f"{name} says {description(name)!r} alone" for name in names() if len(description(name)) <= 15]
    assert wrong == [], "\n".join(wrong)


def test_what_each_megatron_catalogue_is_for() -> None:
    basic, nccl, stall = (load(f"megatron_{what}") for what in ("basic", "nccl", "stall_detection"))
    production = load("megatron_production")
    assert {"oom", "torch", "exception"} <= kinds("megatron_basic")
    assert kinds("megatron_basic").isdisjoint({"nccl", "nccl_timeout", "distributed_timeout", "hang", "deadlock"})
    assert {"nccl", "nccl_timeout", "communication", "distributed_timeout"} <= kinds("megatron_nccl")
    assert {"hang", "deadlock", "nccl_timeout", "numerical_instability"} <= kinds("megatron_stall_detection")
    for part in (basic, nccl, stall, load("base")):
        assert {each.name for each in part.signals} <= {each.name for each in production.signals}
    assert (basic.inactivity_s, nccl.inactivity_s, stall.inactivity_s) == (None, None, 900)
    assert (production.inactivity_s, production.poll_s, production.inactivity_check_s) == (1200, 180, 120)


def test_the_default_knows_all_signals_and_sets_no_limits() -> None:
    default = load("default")
    everything = {each.name for name in names() for each in load(name).signals}
    assert {each.name for each in default.signals} == everything
    assert (default.inactivity_s, default.poll_s, default.inactivity_check_s) == (None, None, None)
    assert default.absences == ()


def test_no_two_catalogues_have_a_signal_of_one_name() -> None:
    owners: dict[str, set[str]] = {}
    for name in names():
        for signal in load(name).signals:
            owners.setdefault(signal.name, set()).add(signal.source)
    assert {name: who for name, who in owners.items() if len(who) > 1} == {}


def test_each_signal_is_fit_for_use() -> None:
    check_each(((signal.name, (signal,)) for signal in load("default").signals), is_fit_for_use)


def is_fit_for_use(signal: Signal) -> None:
    assert signal.kind or signal.error_type or signal.verdict or signal.role == "confirmation", "it says nothing"
    assert signal.error_type is None or signal.error_type in TYPES
    assert len(signal.hint) <= HINT_LIMIT
    assert signal.literals, "without text that is in each of its lines it would be tried on every line"
    assert re.fullmatch(r"[a-z][a-z0-9_]*", signal.name)
    shown = filled(signal.hint, {})
    assert "{" not in re.sub(r"\{print [^}]*\}|\$\{\w+\}|\{\"[^}]*\}", "", shown), "a place that nothing fills"
    assert filled(signal.hint, dict.fromkeys(fields_of(signal.hint), "x")).count("[") == shown.count("[")


def test_the_table_of_error_types() -> None:
    restartable = {name for name, each in TYPES.items() if each.restartable}
    assert set(TYPES) - restartable == {
        "oom",
        "numerical_instability",
        "exception",
        "torch",
        "data",
        "environment",
    }
    assert restartable == {
        *("hang", "deadlock", "nccl", "nccl_timeout", "distributed_timeout", "communication", "watchdog_timeout"),
        *("cancelled", "slurm_failure", "time_limit", "timeout", "hardware", "storage", "unknown"),
    }


def test_each_error_types_hint_can_be_acted_on() -> None:
    check_each(((name, (name,)) for name in TYPES), can_be_acted_on)


def can_be_acted_on(name: str) -> None:
    hint = TYPES[name].hint
    assert len(hint) <= HINT_LIMIT
    command = (
        r"nvidia-smi|dmesg -T|sacct|df -h|py-spy dump|nc -vz|grep|tail|pip freeze|dcgmi|ls -l|CUDA_LAUNCH_BLOCKING"
    )
    assert re.search(command, hint) or name == "numerical_instability"
    assert TYPES[name].meaning.endswith(".")


LINES = [
    ("megatron_basic", ITERATION.format(loss="2.5E+00", norm="0.8", nan=0), "megatron_iteration"),
    ("megatron_basic", ITERATION.format(loss="2.5E+00", norm="0.8", nan=0), "megatron_loss"),
    (
        "megatron_basic",
        "  successfully saved checkpoint from iteration    1000 to /ckpt [ t 1/8, p 1/1 ]",
        "megatron_checkpoint_saved",
    ),
    (
        # Megatron-LM before 2024, Megatron-DeepSpeed and their forks
        "megatron_basic",
        "  successfully saved checkpoint at iteration    1000 to /ckpt",
        "megatron_checkpoint_saved",
    ),
    (
        "megatron_basic",
        "[2023-05-01 10:00:00] successfully saved checkpoint at iteration 1000 to checkpoints/gpt",
        "megatron_checkpoint_saved",
    ),
    (
        "megatron_basic",
        "[NeMo I 2026-01-01] Successfully saved checkpoint from iteration      49 to /c",
        "megatron_checkpoint_saved",
    ),
    (
        "megatron_basic",
        "saving checkpoint at iteration    1000 to /ckpt in torch_dist format",
        "megatron_checkpoint_started",
    ),
    (
        "megatron_basic",
        "validation loss at iteration 1000 on validation set | lm loss value: 2.3E+00 |",
        "megatron_validation",
    ),
    ("megatron_basic", "[after training is done] datetime: 2026-01-01 10:00:00 ", "megatron_training_done"),
    ("megatron_basic", "[exiting program at iteration 4000] datetime: 2026-01-01 10:00:00", "megatron_planned_exit"),
    ("megatron_stall_detection", ITERATION.format(loss="nan", norm="0.8", nan=1), "megatron_loss_not_finite"),
    ("megatron_stall_detection", ITERATION.format(loss="2.5", norm="inf", nan=0), "megatron_grad_not_finite"),
    (
        "megatron_production",
        "AssertionError: Rank 3: found NaN in local forward loss calculation. Device: 3, node: gpu-1",
        "megatron_nan_local",
    ),
    (
        "megatron_production",
        (
            "RuntimeError: Rank 13, node gpu-2, device 5, iteration 812: Unexpected result nan (message='found NaN in "
            "local grad norm for bucket #0 in backward pass before data-parallel collective')"
        ),
        "megatron_nan_local",
    ),
    (
        "megatron_production",
        "AssertionError: num_layers value from checkpoint (24) is not equal to the input argument value (32).",
        "megatron_checkpoint_arguments",
    ),
    ("megatron_production", "[exiting program after receiving SIGTERM.] datetime: 2026-01-01", "megatron_sigterm"),
    ("huggingface", "{'loss': 2.5, 'grad_norm': 1.1, 'learning_rate': 5e-05, 'epoch': 0.1}", "hf_train_log"),
    ("huggingface", "{'loss': '2.5', 'learning_rate': '5e-05', 'epoch': '0.1'}", "hf_train_log"),
    ("huggingface", "***** Running Evaluation *****", "hf_evaluation"),
    ("huggingface", "Saving model checkpoint to /out/checkpoint-500", "hf_checkpoint_started"),
    ("huggingface", "Model weights saved in /out/checkpoint-500/model.safetensors", "hf_checkpoint_saved"),
    ("huggingface", "{'train_runtime': 12.3, 'train_samples_per_second': 81.3, 'train_loss': 2.1}", "hf_training_done"),
    ("huggingface", "Retrying in 2s [Retry 3/5].", "hf_retry"),
    ("huggingface", "Got disconnected from remote data host. Retrying in 5sec [1/20]", "hf_retry"),
    (
        "huggingface",
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the",
        "hf_hub_unreachable",
    ),
    ("huggingface", "OSError: You are trying to access a gated repo.", "hf_hub_refused"),
    ("huggingface", "huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests", "hf_hub_failed"),
    ("huggingface", "huggingface_hub.errors.GatedRepoError: 401 Client Error.", "hf_hub_refused"),
    (
        "huggingface",
        "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
        "hf_safetensors_broken",
    ),
    ("lightning", "`Trainer.fit` stopped: `max_epochs=3` reached.", "lightning_done"),
    ("lightning", "`Trainer.fit` stopped: No training batches.", "lightning_no_batches"),
    (
        "lightning",
        "Epoch 18, global step 19: 'val_loss' reached 0.05798 (best 0.05798), saving model to '/c/e=18.ckpt' as top 19",
        "lightning_checkpoint_saved",
    ),
    (
        "lightning",
        "Monitored metric train_loss = nan is not finite. Previous best value was 2.1. Signaling Trainer to stop.",
        "lightning_metric_not_finite",
    ),
    ("lightning", "Epoch 0:  50%|█████     | 8/16 [00:00<00:00, 290.39it/s, v_num=0]", "lightning_epoch"),
    ("lightning", "[rank: 2] Received SIGTERM: 15", "lightning_sigterm"),
    ("deepspeed", "[INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[0.1], mom=[0.9]", "deepspeed_step"),
    (
        "deepspeed",
        (
            "[INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss "
            "scale: 65536, reducing to 32768"
        ),
        "deepspeed_overflow",
    ),
    (
        "deepspeed",
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
        "deepspeed_loss_scale_minimum",
    ),
    (
        "deepspeed",
        "[INFO] [torch_checkpoint_engine.py:21:save] [Torch] Saving /c/mp_rank_00.pt...",
        "deepspeed_checkpoint_started",
    ),
    (
        "deepspeed",
        "[INFO] [torch_checkpoint_engine.py:23:save] [Torch] Saved /c/mp_rank_00.pt.",
        "deepspeed_checkpoint_saved",
    ),
    ("deepspeed", "RuntimeError: Error building extension 'fused_adam'", "deepspeed_extension"),
    (
        "deepspeed",
        (
            "AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * "
            "gradient_acc_step * world_size 256 != 4 * 8 * 1"
        ),
        "deepspeed_batch_sizes",
    ),
    ("jax", "completed step: 5, seconds: 1.250, TFLOP/s/device: 100.1, Tokens/s/device: 3276.8, loss: 2.5", "jax_step"),
    (
        "jax",
        "jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4294967296 bytes.",
        "jax_oom",
    ),
    (
        "jax",
        "XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 17.10G of 15.48G hbm.",
        "jax_oom_compiling",
    ),
    (
        "jax",
        (
            "XlaRuntimeError: INTERNAL: NCCL operation ncclAllReduce( send_buffer.opaque(), recv_buffer.opaque(), "
            "ToNcclCount(dtype, count), nccl_dtype, reduce_op, comm_) failed: unhandled system error (run with"
        ),
        "jax_nccl",
    ),
    ("jax", "XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: PjRT_Client_Connect::1", "jax_barrier_timeout"),
    (
        "jax",
        "This thread has been waiting for `first call to collective operation 5` for 20 seconds and may be stuck:",
        "jax_rendezvous_stuck",
    ),
]


def test_each_line_is_known() -> None:
    check_each(
        ((f"{name} of {catalogue}: {line}", (catalogue, line, name)) for catalogue, line, name in LINES), is_known
    )


def is_known(catalogue: str, line: str, name: str) -> None:
    assert name in matched(load(catalogue), line)
    assert name in matched(load("default"), line)


HEALTHY = [
    pytest.param(ITERATION.format(loss="2.5E+00", norm="0.815", nan=0), id="an iteration with its counters at zero"),
    pytest.param("  check_for_nan_in_loss_and_grad .................. True", id="an argument named after NaN"),
    pytest.param("  exit_duration_in_mins ........................... 230", id="an argument named after an end"),
    pytest.param(
        '    f"Rank {global_rank}: found NaN in local forward loss calculation. "', id="the source of a message"
    ),
    pytest.param("lr scheduler: Reducing learning rate of group 0 to 1e-5.", id="a schedule"),
    pytest.param(
        (
            "huggingface/tokenizers: The current process just got forked, after parallelism has already been used. "
            "Disabling parallelism to avoid deadlocks..."
        ),
        id="advice that names deadlocks",
    ),
    pytest.param("NCCL_DEBUG=INFO RESOURCE_EXHAUSTED_RETRIES=3", id="a setting named after an error"),
    pytest.param(
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768", id="an overflow"
    ),
]


@pytest.mark.parametrize("line", HEALTHY)
def test_a_healthy_line_is_no_failure_of_any_framework(line: str) -> None:
    default = load("default")
    frameworks = {"megatron_lines", "megatron_faults", "huggingface", "lightning", "deepspeed", "jax"}
    found = [signal for signal, _ in matcher_of(default).matches(line) if signal.source in frameworks]
    assert [signal.name for signal in found if signal.kind is None] == []

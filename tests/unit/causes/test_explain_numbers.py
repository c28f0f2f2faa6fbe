# ruff: noqa: E501 - lines of logs are as long as they are
"""Values that are no numbers."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.signals.loading import load
from support.printed import CHILD_FAILED, MEGATRON, STEPS

CASES = [
    pytest.param(
        STEPS
        + "step 60/1000 loss nan lr 3.0e-04\nstep 70/1000 loss nan lr 3.0e-04\nstep 80/1000 loss nan lr 3.0e-04\n",
        "step 60/1000 loss nan",
        id="the loss stays nan until the text ends",
    ),
    pytest.param(
        "".join(f"{{'loss': 1.{n}, 'grad_norm': 0.5, 'learning_rate': 1e-05, 'epoch': 0.{n}}}\n" for n in range(1, 4))
        + "".join(f"{{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1e-05, 'epoch': 0.{n}}}\n" for n in range(4, 9)),
        "'epoch': 0.4",
        id="the Trainer's loss of 0.0 with a gradient norm of nan",
    ),
    pytest.param(
        "Epoch 3:  40%|####      | 40/100 [00:10<00:15,  4.00it/s, v_num=0, train_loss=0.31]\n"
        "Epoch 3:  41%|####      | 41/100 [00:10<00:15,  4.00it/s, v_num=0, train_loss=nan.0]\n"
        "Epoch 3:  42%|####      | 42/100 [00:10<00:15,  4.00it/s, v_num=0, train_loss=nan.0]\n"
        "Epoch 3:  43%|####      | 43/100 [00:10<00:15,  4.00it/s, v_num=0, train_loss=nan.0]\n",
        "41/100",
        id="Lightning's bar",
    ),
    pytest.param(
        MEGATRON
        + """\
Traceback (most recent call last):
  File "/workspace/megatron/training/training.py", line 1470, in train
    train_step(forward_step_func)
  File "/workspace/megatron/core/rerun_state_machine.py", line 537, in validate_result
    raise RuntimeError(full_message)
RuntimeError: Rank 12, node gpu-7, device 4, iteration 41: Unexpected result nan (message='found NaN in local forward loss calculation')
"""
        + CHILD_FAILED,
        "Unexpected result nan",
        id="Megatron's check of the loss",
    ),
    pytest.param(
        STEPS
        + """\
Traceback (most recent call last):
  File "train.py", line 33, in <module>
    loss.backward()
  File "/opt/venv/lib/python3.10/site-packages/torch/autograd/__init__.py", line 200, in backward
    Variable._execution_engine.run_backward(
RuntimeError: Function 'LogSoftmaxBackward0' returned nan values in its 0th output.
""",
        "returned nan values",
        id="anomaly detection",
    ),
    pytest.param(
        STEPS
        + """\
Traceback (most recent call last):
  File "train.py", line 33, in <module>
    assert torch.isfinite(loss), f"loss is {loss.item()}"
AssertionError: loss is nan
""",
        "AssertionError: loss is nan",
        id="an assertion about the loss",
    ),
    pytest.param(
        STEPS
        + """\
[2026-03-01 10:00:00,000] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 2, reducing to 1
Traceback (most recent call last):
  File "train.py", line 210, in <module>
    engine.step()
  File "/opt/venv/lib/python3.10/site-packages/deepspeed/runtime/fp16/loss_scaler.py", line 175, in update_scale
    raise Exception("Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.")
Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.
""",
        "already at minimum",
        id="DeepSpeed's loss scale is at its minimum",
    ),
    pytest.param(
        STEPS
        + """\
Traceback (most recent call last):
  File "generate.py", line 20, in <module>
    tokens = torch.multinomial(probs, 1)
RuntimeError: probability tensor contains either `inf`, `nan` or element < 0
""",
        "probability tensor contains",
        id="probabilities that are none",
    ),
    pytest.param(
        STEPS
        + "2026-03-01 10:00:00 ERROR trainer: non-finite gradient norm inf at step 61, aborting training\nexit code 1\n",
        "non-finite gradient norm",
        id="a trainer that says so in a line and gives up",
    ),
    pytest.param(
        STEPS + "ValueError: Loss became infinite at step 61: inf\n",
        "Loss became infinite",
        id="an infinite loss, without a traceback",
    ),
    pytest.param(
        STEPS
        + "".join(f"{{'loss': 'nan', 'grad_norm': 'nan', 'epoch': '0.0{n}'}}\n" for n in range(6, 9))
        + "{'train_runtime': '0.6', 'train_samples_per_second': '1063', 'train_loss': 'nan', 'epoch': '0.16'}\n",
        "'loss': 'nan'",
        id="it ran to the end, with a loss that is no number",
    ),
    pytest.param(
        STEPS
        + """\
Traceback (most recent call last):
  File "/w/train.py", line 7, in <module>
    d = torch.distributions.Categorical(logits=policy(x))
ValueError: Expected parameter logits (Tensor of shape (16, 4)) of distribution Categorical(logits: torch.Size([16, 4])) to satisfy the constraint IndependentConstraint(Real(), 1), but found invalid values:
tensor([[nan, nan, nan, nan],
""",
        "found invalid values",
        id="a distribution refuses what the model gave",
    ),
    pytest.param(
        STEPS + "RuntimeError: loss scale is below its minimum, training diverged\n",
        "below its minimum",
        id="a loss scaler gives up",
    ),
]


@pytest.mark.parametrize(("text", "evidence"), CASES)
def test_values_that_are_no_numbers(text: str, evidence: str) -> None:
    cause = explain_text(text, load("default")).cause
    assert cause is not None
    assert cause.error_type == "numerical_instability"
    assert evidence in cause.evidence.text


FINITE = "".join(
    f"[1, {n}/2562] Class loss: 6.{n} - Autoencoder Loss (total): 1.{n} - K-Means Loss: [1.5 / 9.{n}]\n"
    for n in range(3)
)
ASSERTED = """\
Traceback (most recent call last):
  File "/w/train.py", line 33, in <module>
    assert torch.isfinite(loss), f"loss is {loss.item()}"
AssertionError: loss is nan
"""
DEVICE_ASSERT = """\
../aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward: block: [0,0,0], thread: [3,0,0] Assertion `t >= 0 && t < n_classes` failed.
Traceback (most recent call last):
  File "/w/train.py", line 40, in <module>
    torch.cuda.synchronize()
RuntimeError: CUDA error: device-side assert triggered
"""
FULL = """\
Traceback (most recent call last):
  File "/w/train.py", line 52, in <module>
    torch.save(state, path)
OSError: [Errno 28] No space left on device
"""

FIRST = [
    pytest.param(
        FINITE
        + "[1, 3] grad_stats: [nan nan] (nan, nan)\n"
        + "".join(
            f"[1, {n}/2562] Class loss: nan - Autoencoder Loss (total): nan - K-Means Loss: [nan / nan]\n"
            for n in range(4, 8)
        )
        + DEVICE_ASSERT,
        "grad_stats",
        id="statistics of the gradients, losses with remarks and in brackets, and a kernel's assertion at the end",
    ),
    pytest.param(
        FINITE
        + "[1, 3/2562] - Autoencoder Loss (total): nan\n[1, 4/2562] - Autoencoder Loss (total): nan\n"
        + ASSERTED,
        "[1, 3/2562]",
        id="a loss with a remark",
    ),
    pytest.param(
        STEPS + "step 60/1000 loss 2.4 grad_norm nan\n" + ASSERTED,
        "grad_norm nan",
        id="a single gradient, and then an assertion about the loss",
    ),
    pytest.param(
        "".join(f"step {n} mlm loss: 2.{n}\nstep {n} nsp loss: 0.{n}\n" for n in range(5))
        + "".join(f"step {n} mlm loss: nan\nstep {n} nsp loss: 0.{n}\n" for n in range(5, 9)),
        "step 5 mlm loss",
        id="one of two losses that are printed in turn",
    ),
    pytest.param(
        "".join(f"[rank{rank}]: step {n} loss 2.{n}\n" for n in range(4) for rank in range(3))
        + "".join(
            f"[rank{rank}]: step {n} loss {'nan' if rank == 1 else 1.5}\n" for n in range(4, 8) for rank in range(3)
        ),
        "[rank1]: step 4",
        id="one of several ranks",
    ),
    pytest.param(
        STEPS + "step 60/1000 loss=array(nan, dtype=float32)\nstep 70/1000 loss=array(nan, dtype=float32)\n",
        "step 60",
        id="numpy's way to print it",
    ),
    pytest.param(
        MEGATRON
        + "".join(
            f" [2026-03-01 10:0{n}:00] iteration {n}0/ 5000 | consumed samples: {n}000 | loss scale: 1.0 | grad norm: 0.4 | "
            f"number of skipped iterations:  10 | number of nan iterations:  10 |\n"
            for n in range(5, 9)
        ),
        "iteration 50/",
        id="Megatron counts them, and prints no loss any more",
    ),
]


@pytest.mark.parametrize(("text", "evidence"), FIRST)
def test_the_evidence_is_where_they_stopped_being_numbers(text: str, evidence: str) -> None:
    cause = explain_text(text, load("default")).cause
    assert cause is not None
    assert cause.error_type == "numerical_instability"
    assert evidence in cause.evidence.text


NO_DIVERGENCE = [
    pytest.param(
        "best val loss: inf, lowest loss so far: inf, best_loss=inf\n", id="a record that nothing has set yet"
    ),
    pytest.param("".join(f"step {n}/1000 loss (nan-safe): 2.{n}\n" for n in range(60, 66)), id="a loss of that name"),
    pytest.param("eval: accuracy=nan, val loss (total): nan\n", id="an evaluation"),
    pytest.param(
        STEPS + "step 60/1000 mlm loss: nan\n" + "".join(f"step {n}/1000 total loss: 2.{n}\n" for n in range(61, 99)),
        id="one loss once, and others for long after it",
    ),
    pytest.param(
        "/opt/v/summary.py:85: RuntimeWarning: NaN or Inf found in input tensor.\n", id="TensorBoard's writer"
    ),
]


@pytest.mark.parametrize("text", NO_DIVERGENCE)
def test_values_that_ended_nothing(text: str) -> None:
    assert explain_text(STEPS + text, load("default")).cause is None


def test_what_ended_a_run_that_had_diverged_is_the_cause_and_the_divergence_beside_it() -> None:
    diverged = STEPS + "".join(f"step {n}0/1000 loss nan\n" for n in range(6, 12))
    found = explain_text(diverged + FULL, load("default"))
    assert found.cause is not None
    assert found.cause.error_type == "storage"
    assert "numerical_instability" in [other.error_type for other in found.alternatives]
    stopped = explain_text(
        diverged + '^CTraceback (most recent call last):\n  File "/w/t.py", line 3, in <module>\nKeyboardInterrupt\n',
        load("default"),
    )
    assert stopped.cause is not None
    assert stopped.cause.error_type == "numerical_instability"
